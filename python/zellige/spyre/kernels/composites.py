"""Composite operators that the card runs as one kernel.

PyTorch defines them by other operators. Without gradients one kernel computes each; where a gradient is asked for, or
a mode or a subclass looks at single operators, PyTorch's own decomposition runs instead.
"""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from ... import _native
from ..dispatcher import operator, register, without_autograd
from .norms import layer_norm
from .registration import refusable, run

_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def _wanted(*tensors) -> str | None:
    """How a call is done: `now` by a kernel, `traced` as one operator of a graph that is being traced, or None by
    PyTorch's decomposition."""
    # In forward mode the decomposition has the tangents.
    if forward_ad._current_level >= 0:
        return None
    grad = torch.is_grad_enabled()
    plain = True
    for t in tensors:
        if t is None:
            continue
        if t.device.type != "spyre" or (grad and t.requires_grad):
            return None
        plain = plain and type(t) in _PLAIN
    if plain and not torch._C._len_torch_dispatch_stack():
        return "now"
    from torch._subclasses import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    known = (*_PLAIN, FakeTensor, FunctionalTensor)
    return "traced" if all(t is None or type(t) in known for t in tensors) else None


def _linear(input, weight, bias=None):
    how = _wanted(input, weight, bias)
    if how == "now":
        try:
            return _native.run("linear", [input, weight, bias])
        except _native.DeviceError:
            # PyTorch takes a weight of one dimension for a vector.
            if weight.dim() == 2:
                raise
            how = None
    if how and weight.dim() == 2:
        return torch.ops.spyre.linear(input, weight, bias)
    return torch.ops.aten.linear.default.decompose(input, weight, bias)


def _matmul(self, other):
    how = _wanted(self, other)
    if how == "now":
        return _native.run("matmul", [self, other])
    if how:
        return torch.ops.spyre.matmul(self, other)
    return torch.ops.aten.matmul.default.decompose(self, other)


def _norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    how = _wanted(input, weight, bias)
    if how == "now" and eps >= 0:
        return layer_norm(input, list(normalized_shape), weight, bias, eps)
    if how == "traced":
        return torch.ops.spyre.layer_norm(input, normalized_shape, weight, bias, eps)
    return torch.ops.aten.layer_norm.default.decompose(input, normalized_shape, weight, bias, eps, cudnn_enable)


def _rms_norm(input, normalized_shape, weight=None, eps=None):
    how = _wanted(input, weight)
    if how == "now" and (eps is None or eps >= 0):
        eps = torch.finfo(input.dtype).eps if eps is None else eps
        return run("rms_norm", [input, weight], normalized_shape=list(normalized_shape), eps=eps)
    if how == "traced":
        return torch.ops.spyre.rms_norm(input, normalized_shape, weight, eps)
    return torch.ops.aten.rms_norm.default.decompose(input, normalized_shape, weight, eps)


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    how = _wanted(query, key, value, attn_mask)
    if dropout_p or query.dim() < 2 or (attn_mask is not None and is_causal):
        how = None
    if how == "now":
        attributes = dict(is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
        return run("scaled_dot_product_attention", [query, key, value, attn_mask], **attributes)
    if how:
        return torch.ops.spyre.sdpa(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    return torch.ops.aten.scaled_dot_product_attention.default.decompose(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _max_pool2d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    # Integers run on the CPU, by the operator with indices.
    if _wanted(self) != "now" or self.dim() not in (3, 4) or not self.dtype.is_floating_point:
        return torch.ops.aten.max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]
    attributes = dict(kernel_size=kernel_size, stride=list(stride) or None, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    return run("max_pool2d", [self], **attributes)


_COMPOSITES = {
    "linear": _linear,
    "matmul": _matmul,
    "layer_norm": _norm,
    "rms_norm": _rms_norm,
    "scaled_dot_product_attention": _attention,
    "max_pool2d": _max_pool2d,
}


def _differentiable(name: str):
    """A kernel where no gradient is needed, and PyTorch's definition by other operators where one is."""
    found = []

    def kernel(*args, **kwargs):
        if not found:
            found.append(operator(name))
        if _wanted(*(a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor))) is None:
            return found[0].decompose(*args, **kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return found[0](*args, **kwargs)

    return kernel


def install() -> None:
    """Registers the kernels, above autograd and below it. All other kernels are registered already."""
    for name, function in _COMPOSITES.items():
        register(name, refusable(name, function), "PrivateUse1", "AutogradPrivateUse1")
    for name in without_autograd():
        register(name, torch._disable_dynamo(_differentiable(name)), "AutogradPrivateUse1")
