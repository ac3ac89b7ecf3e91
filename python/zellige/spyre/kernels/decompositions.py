"""Operators that the card runs as a sequence of others.

For most of them PyTorch itself has the decomposition; it is looked up at the first call, since that table is slow to
import. What computes in float64 or in complex numbers on the way runs on the CPU as one operator.
"""

from __future__ import annotations

import torch

from ..dispatcher import operator, register
from ..fallback import boxed, record
from . import convolutions, recurrent_cells, selection

# Operators that PyTorch has a decomposition for: losses, gradients of activations and norms, and rare ones.
_KNOWN = """
nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward
smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward mse_loss_backward
binary_cross_entropy binary_cross_entropy_backward multi_margin_loss
gelu_backward silu_backward mish_backward elu_backward leaky_relu_backward softplus_backward
hardswish_backward hardsigmoid_backward hardtanh_backward glu_backward log_sigmoid_backward
logit_backward _prelu_kernel _prelu_kernel_backward softshrink hardshrink
native_layer_norm_backward native_batch_norm_backward native_group_norm_backward native_dropout_backward
embedding_dense_backward unfold_backward _weight_norm_interface
logit sinc xlogy.Tensor nan_to_num heaviside vdot channel_shuffle
std_mean.correction logaddexp2 linalg_cross special_entr special_xlog1py
im2col col2im upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_linear1d
""".split()

# Interpolations that compute weighted sums.
_OF_FLOATS = {"upsample_bilinear2d", "upsample_linear1d"}

# Composites of PyTorch with a tensor inside that the card does not store. The CPU computes their gradients too.
_WIDE = {
    "it computes in float64": """
quantile quantile.scalar nanquantile nanquantile.scalar linalg_matrix_rank linalg_matrix_rank.atol_rtol_float
linalg_matrix_rank.atol_rtol_tensor linalg_pinv linalg_pinv.atol_rtol_float linalg_pinv.atol_rtol_tensor pinverse
""".split(),
    "it computes in complex numbers": """
fft_irfft fft_irfft2 fft_irfftn fft_hfft fft_hfft2 fft_hfftn stft stft.center
""".split(),
}

# The same with an `out` argument, and an operator that refuses devices that it does not know by name.
_WIDE_OUT = """
quantile.out quantile.scalar_out nanquantile.out nanquantile.scalar_out linalg_matrix_rank.out
linalg_matrix_rank.atol_rtol_float_out linalg_matrix_rank.atol_rtol_tensor_out linalg_pinv.out
linalg_pinv.atol_rtol_float_out linalg_pinv.atol_rtol_tensor_out
fft_irfft.out fft_irfft2.out fft_irfftn.out fft_hfft.out fft_hfft2.out fft_hfftn.out mode.values
""".split()


def _in_parts(name: str):
    found = []

    def kernel(*args, **kwargs):
        if not found:
            from torch._decomp import decomposition_table

            found.append(decomposition_table[operator(name)])
        if name in _OF_FLOATS and not args[0].is_floating_point():
            # Images of bytes have an arithmetic of their own on the CPU, in whole numbers.
            return boxed(operator(name), *args, **kwargs)
        return found[0](*args, **kwargs)

    return kernel


def _on_the_host(name: str, reason: str):
    from torch.utils._pytree import tree_leaves, tree_map_only

    def kernel(*args, **kwargs):
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        args, kwargs = tree_map_only(torch.Tensor, lambda t: t.cpu(), (args, kwargs))
        out = operator(name)(*args, **kwargs)
        record("aten::" + name, sum(t.numel() * t.element_size() for t in tensors), reason)
        return out.to(tensors[0].device)

    return kernel


def _on_the_host_into(name: str):
    op = operator(name)
    return lambda *args, **kwargs: boxed(op, *args, **kwargs)


# Composites that PyTorch computes in float64 on the way, which the card does not.


def _renorm(self, p, dim, maxnorm):
    if self.dim() < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.dim()} dimensions")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    dim = dim % self.dim()
    norm = torch.linalg.vector_norm(self, p, [d for d in range(self.dim()) if d != dim], keepdim=True)
    return self * torch.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1.0).to(self.dtype)


def _batch_norm_parts(input, weight, bias, mean, var, training, momentum, eps, cudnn_enabled):
    if input.numel():
        return torch.ops.aten._batch_norm_impl_index.default.decompose(
            input, weight, bias, mean, var, training, momentum, eps, cudnn_enabled
        )
    # An empty batch has no moments; the weights take part so that their gradient is zero, and not missing.
    out = input.clone()
    for parameter, apply in ((weight, torch.mul), (bias, torch.add)):
        out = out if parameter is None else apply(out, parameter[0] if parameter.numel() else parameter.sum())
    return out, input.new_empty(0), input.new_empty(0), input.new_empty(0, dtype=torch.uint8), 0


def _shrink_backward(grad_out, self, lambd):
    return torch.where((self >= -lambd) & (self <= lambd), 0.0, grad_out)


def _fmax(self, other):
    return torch.where(other.isnan(), self, torch.where(self.isnan(), other, torch.maximum(self, other)))


def _fmin(self, other):
    return torch.where(other.isnan(), self, torch.where(self.isnan(), other, torch.minimum(self, other)))


def _infinities_of_sign(name: str, is_of_sign):
    # PyTorch compares with an infinity. What float16 reads back as one may be a smaller number on the card, which `isinf`
    # knows.
    def kernel(self):
        if self.is_complex():
            raise RuntimeError(f"{name} does not support complex inputs.")
        return torch.isinf(self) & is_of_sign(self)

    return kernel


_WRITTEN = {
    "isposinf": _infinities_of_sign("isposinf", lambda x: x > 0),
    "isneginf": _infinities_of_sign("isneginf", lambda x: x < 0),
    "fmax": _fmax,
    "fmin": _fmin,
    "_thnn_fused_lstm_cell": recurrent_cells.lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": recurrent_cells.lstm_cell_backward,
    "_thnn_fused_gru_cell": recurrent_cells.gru_cell,
    "_thnn_fused_gru_cell_backward": recurrent_cells.gru_cell_backward,
    "softshrink_backward": _shrink_backward,
    "hardshrink_backward": _shrink_backward,
}


_COMPOSITE = {"renorm": _renorm, "_batch_norm_impl_index": _batch_norm_parts}


# These give NotImplemented for operands that the CPU has to take.
_COMPOSED = {
    "max_pool2d_with_indices": convolutions.max_pool2d_with_indices,
    "max_pool2d_with_indices_backward": convolutions.max_pool2d_with_indices_backward,
    "nonzero": selection.nonzero,
    "masked_select": selection.masked_select,
    "masked_scatter_": selection.masked_scatter_,
    "multinomial": selection.multinomial,
    "histc": selection.histc,
}


def _composed(name: str, function):
    def kernel(*args, **kwargs):
        made = function(*args, **kwargs)
        if made is not NotImplemented:
            return made
        if name == "histc":
            return _histc(*args, **kwargs)
        return boxed(operator(name), *args, **kwargs)

    return kernel


def _histc(self, bins=100, min=0, max=0):
    # The CPU counts floats alone, other devices integers too.
    record("aten::histc", self.numel() * self.element_size())
    return torch.histc(self.cpu().double(), bins, min, max).to(self.dtype).to(self.device)


def install() -> None:
    """Registers them."""
    for name, function in _COMPOSED.items():
        register(name, torch._disable_dynamo(_composed(name, function)))
    parts = {name: _in_parts(name) for name in _KNOWN} | _WRITTEN
    for name, function in parts.items():
        register(name, torch._disable_dynamo(function))
    whole = {name: _on_the_host(name, reason) for reason, names in _WIDE.items() for name in names}
    for name, function in {**whole, **{name: _on_the_host_into(name) for name in _WIDE_OUT}, **_COMPOSITE}.items():
        register(name, torch._disable_dynamo(function), "PrivateUse1", "AutogradPrivateUse1")
