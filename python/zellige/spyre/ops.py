"""``torch.ops.spyre``: operators of the device that PyTorch has no name for."""

from __future__ import annotations

import torch

from .. import _native
from .kernels.norms import layer_norm
from .kernels.registration import run

_libraries: list[torch.library.Library] = []

_SCHEMAS = {
    "restickify": "(Tensor input, int dim) -> Tensor",
    "to_layout": "(Tensor input, str layout) -> Tensor",
    "constant": "(Scalar value, ScalarType dtype, Device device) -> Tensor",
    "rms_norm": "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    "layer_norm": "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    "gelu": "(Tensor input, str approximate=\"none\") -> Tensor",
    "linear": "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    "matmul": "(Tensor input, Tensor other) -> Tensor",
    "sdpa": "(Tensor query, Tensor key, Tensor value, Tensor? mask=None, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor",
}


def _checked(input, dim):
    rank = max(input.dim(), 1)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def _restickify(input, dim):
    dim = _checked(input, dim)
    if input.dim() == 0 or input.numel() == 0:
        return input.clone()
    layout = _native.tensor_layout(input)
    if input._is_view() or layout.host_size != list(input.shape):
        # A view has no layout of its own: it gets the default one first.
        layout = _native.tensor_layout(input.clone(memory_format=torch.contiguous_format))
    return _native.to_layout(input, layout.restickify(dim))


def _to_layout(input, layout):
    return _native.to_layout(input, _native.SpyreTensorLayout._read(layout))


def in_layout(tensor, layout):
    """The tensor in a layout, as one operator: gradients pass through it, and traced graphs keep it. The operator takes
    the text of the layout, which has every field of it (gaps, dimensions of the stick, arrangement, host)."""
    return torch.ops.spyre.to_layout(tensor, layout._whole)


def _constant(value, dtype, device):
    return torch.full((), value, dtype=dtype, device=device)


def _rms_norm(input, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    return run("rms_norm", [input, weight], normalized_shape=list(normalized_shape), eps=eps)


def _norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return layer_norm(input, list(normalized_shape), weight, bias, eps)


def _gelu(input, approximate="none"):
    return run("gelu", [input], approximate=approximate)


def _linear(input, weight, bias=None):
    return run("linear", [input, weight, bias])


def _matmul(input, other):
    return run("matmul", [input, other])


def _sdpa(query, key, value, mask=None, is_causal=False, scale=None, enable_gqa=False):
    attributes = dict(is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    return run("scaled_dot_product_attention", [query, key, value, mask], **attributes)


_DEVICE = {
    "restickify": _restickify,
    "to_layout": _to_layout,
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
    "restickify": lambda input, dim: (_checked(input, dim), input.clone())[1],
    "to_layout": lambda input, layout: input.clone(),
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
    "restickify": lambda input, dim: (_checked(input, dim), _same(input))[1],
    "linear": lambda input, weight, bias=None: input.new_empty((*input.shape[:-1], *weight.shape[:-1])),
    "matmul": lambda input, other: torch.matmul(input, other).contiguous(),
    "sdpa": lambda query, key, value, *_, **__: query.new_empty((*query.shape[:-1], value.shape[-1])),
}


class _Moved(torch.autograd.Function):
    """A move of elements, which leaves the gradient as it is."""

    @staticmethod
    def forward(ctx, op, input, *args):
        with torch._C._AutoDispatchBelowAutograd():
            return op(input, *args)

    @staticmethod
    def backward(ctx, grad):
        return (None, grad) + (None,) * (len(ctx.needs_input_grad) - 2)


def _differentiable(name: str):
    """The gradient of an operator of the device is that of PyTorch's operator of the same meaning."""
    op, parts = getattr(torch.ops.spyre, name).default, _HOST[name]

    @torch._disable_dynamo
    def autograd(*args, **kwargs):
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            if name in ("restickify", "to_layout"):
                return _Moved.apply(op, *args, *kwargs.values())
            return parts(*args, **kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return autograd


def _written(layout):
    """A layout as Python code, and the names that the code needs."""
    return f"SpyreTensorLayout._read({layout._whole!r})", {"SpyreTensorLayout": _native.SpyreTensorLayout}


def _traceable_layouts() -> None:
    """Makes layouts constants of traced graphs; without this, each would end its graph."""
    from torch._library.opaque_object import MemberType, register_custom_class

    fields = ("device_size", "stride_map", "device_dtype", "host_size", "restickify", "_whole")
    _native.SpyreTensorLayout.__fx_repr__ = _written
    register_custom_class(_native.SpyreTensorLayout, typ="constant", members=dict.fromkeys(fields, MemberType.USE_REAL))


def install() -> None:
    """Defines the operators and their kernels."""
    _traceable_layouts()
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
