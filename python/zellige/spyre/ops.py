"""``torch.ops.spyre``: operators of the device that PyTorch has no name for."""

from __future__ import annotations

import torch

from .. import _native
from .kernels import _layer_norm, _run

_libraries: list[torch.library.Library] = []

_SCHEMAS = {
    "restickify": "(Tensor input, int dim) -> Tensor",
    "constant": "(Scalar value, ScalarType dtype, Device device) -> Tensor",
    "rms_norm": "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    "layer_norm": "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    "gelu": "(Tensor input, str approximate=\"none\") -> Tensor",
    "linear": "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    "matmul": "(Tensor input, Tensor other) -> Tensor",
    "sdpa": "(Tensor query, Tensor key, Tensor value, Tensor? mask=None, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor",
}


def _restickify(input, dim):
    dim = dim % max(input.dim(), 1)
    layout = _native.tensor_layout(input)
    if input._is_view() or layout.host_size != list(input.shape):
        # A view has no layout of its own: it gets the default one first.
        layout = _native.tensor_layout(input.clone(memory_format=torch.contiguous_format))
    return _native.to_layout(input, layout.restickify(dim))


def _constant(value, dtype, device):
    return torch.full((), value, dtype=dtype, device=device)


def _rms_norm(input, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    return _run("rms_norm", [input, weight], normalized_shape=list(normalized_shape), eps=eps)


def _norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return _layer_norm(input, list(normalized_shape), weight, bias, eps)


def _gelu(input, approximate="none"):
    return _run("gelu", [input], approximate=approximate)


def _linear(input, weight, bias=None):
    return _run("linear", [input, weight, bias])


def _matmul(input, other):
    return _run("matmul", [input, other])


def _sdpa(query, key, value, mask=None, is_causal=False, scale=None, enable_gqa=False):
    attributes = dict(is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    return _run("scaled_dot_product_attention", [query, key, value, mask], **attributes)


_DEVICE = {
    "restickify": _restickify,
    "rms_norm": _rms_norm,
    "layer_norm": _norm,
    "gelu": _gelu,
    "linear": _linear,
    "matmul": _matmul,
    "sdpa": _sdpa,
}
_F = torch.nn.functional


def _host_sdpa(query, key, value, mask=None, is_causal=False, scale=None, enable_gqa=False):
    return _F.scaled_dot_product_attention(query, key, value, mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)


# PyTorch's own operators of the same meaning: kernels of the CPU, and what gradients are made of.
_HOST = {
    "restickify": lambda input, dim: input * 1,
    "rms_norm": _F.rms_norm,
    "layer_norm": _F.layer_norm,
    "gelu": lambda input, approximate="none": _F.gelu(input, approximate=approximate),
    "linear": _F.linear,
    "matmul": torch.matmul,
    "sdpa": _host_sdpa,
}


def _same(input, *args, **kwargs):
    return torch.empty_like(input, memory_format=torch.contiguous_format)


_SHAPES = {
    "linear": lambda input, weight, bias=None: input.new_empty((*input.shape[:-1], *weight.shape[:-1])),
    "matmul": lambda input, other: torch.matmul(input, other).contiguous(),
    "sdpa": lambda query, key, value, *_, **__: query.new_empty((*query.shape[:-1], value.shape[-1])),
}


def _differentiable(name: str):
    """The gradient of a whole operator is that of PyTorch's operator of the same meaning."""
    op, parts = getattr(torch.ops.spyre, name).default, _HOST[name]

    @torch._disable_dynamo
    def autograd(*args, **kwargs):
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return parts(*args, **kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return autograd


def install() -> None:
    """Defines the operators and their kernels."""
    library = torch.library.Library("spyre", "DEF")
    _libraries.append(library)
    for name, schema in _SCHEMAS.items():
        library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    for name, function in _DEVICE.items():
        library.impl(name, torch._disable_dynamo(function), "PrivateUse1")
        library.impl(name, torch._disable_dynamo(_HOST[name]), "CPU")
        library.impl(name, _SHAPES.get(name, _same), "Meta")
        library.impl(name, _differentiable(name), "AutogradPrivateUse1")
        library.impl(name, _differentiable(name), "AutogradCPU")
    library.impl("constant", _constant, "CompositeExplicitAutograd")
