"""``torch.autocast("spyre")``: which operators change the dtype of their operands.

Products run in the dtype that autocast names, functions that need the range of float32 in that one;
every other operator takes what comes.
"""

from __future__ import annotations

import torch

from .dispatcher import operator, register

_NARROW = """
linear matmul mm bmm mv addmm addmv addr addbmm baddbmm prelu scaled_dot_product_attention
conv1d conv2d conv3d conv_transpose1d conv_transpose2d.input conv_transpose3d.input lstm_cell gru_cell
""".split()
_WIDE = """
exp expm1 log log10 log1p log2 pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar reciprocal rsqrt cosh sinh tan
softmax.int log_softmax.int layer_norm rms_norm group_norm norm.Scalar norm.ScalarOpt_dim cumsum cumprod prod softplus
cross_entropy_loss nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits
cosine_embedding_loss cosine_similarity dist cdist
""".split()


def _cast(value, dtype):
    if isinstance(value, torch.Tensor):
        fits = value.device.type == "spyre" and value.is_floating_point() and value.dtype != dtype
        return value.to(dtype) if fits else value
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, dtype) for v in value)
    return value


def _casting(name: str, narrow: bool):
    op = operator(name)
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def kernel(*args, **kwargs):
        dtype = torch.get_autocast_dtype("spyre") if narrow else torch.float32
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return op(*_cast(args, dtype), **{k: _cast(v, dtype) for k, v in kwargs.items()})

    return kernel


def install() -> None:
    """Registers the casts."""
    for names, narrow in ((_NARROW, True), (_WIDE, False)):
        for name in names:
            register(name, _casting(name, narrow), "AutocastPrivateUse1")
