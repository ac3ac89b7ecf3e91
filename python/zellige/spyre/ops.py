"""``torch.ops.spyre``: operators of the device that PyTorch has no name for."""

from __future__ import annotations

import torch

from .. import _native
from . import fake_layouts
from .kernels.norms import layer_norm
from .kernels.registration import run

_libraries: list[torch.library.Library] = []

_SCHEMAS = {
    "restickify": "(Tensor input, int dim) -> Tensor",
    "to_layout": "(Tensor input, str layout) -> Tensor",
    "place": "(Tensor input, str space) -> Tensor",
    "upload": "(Tensor input, str layout, Device device) -> Tensor",
    "full_with_layout": "(SymInt[] size, Scalar value, str layout, SymInt[]? stride, ScalarType dtype, Device device) -> Tensor",
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


def _index(device: torch.device) -> int:
    return torch.spyre.current_device() if device.index is None else device.index


def _upload(input, layout, device):
    stride = input.stride() if torch.ops.aten.is_non_overlapping_and_dense(input) else None
    return _empty(input.size(), layout, stride, input.dtype, device).copy_(input)


def _empty(size, layout, stride, dtype, device):
    stride = None if stride is None else list(stride)
    return _native.empty_with_layout(list(size), dtype, _index(device), _native.SpyreTensorLayout._read(layout), stride)


def _full_with_layout(size, value, layout, stride, dtype, device):
    if device.type == "meta":
        made = torch.empty(size, dtype=dtype, device=device) if stride is None else torch.empty_strided(size, stride, dtype=dtype, device=device)
        return _chosen(made, layout)
    made = _empty(size, layout, stride, dtype, device)
    # New memory of the card is zero.
    return made if value == 0 else made.fill_(value)


def _chosen(made, layout):
    """A fake tensor in a layout that the program names; strides that are not row-major ones may be read differently."""
    if made.is_contiguous():
        bound = fake_layouts.bind_layout(_native.SpyreTensorLayout._read(layout), made.shape)
        if bound is not None:
            fake_layouts.set_layout(made, bound)
    return made


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
    # Where a compiler refuses the operators around it, they run one by one, through device memory.
    "place": lambda input, space: input.clone(),
    "upload": _upload,
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
    "place": lambda input, space: input.clone(),
    "upload": _upload,
    "rms_norm": _F.rms_norm,
    "layer_norm": _F.layer_norm,
    "gelu": lambda input, approximate="none": _F.gelu(input, approximate=approximate),
    "linear": _F.linear,
    "matmul": torch.matmul,
    "sdpa": _host_sdpa,
}


def _same(input, *args, **kwargs):
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _restickified(input, dim):
    dim, made = _checked(input, dim), _same(input)
    known = fake_layouts.find_layout(input)
    # A view is copied into the default layout first, and its layout is that of its base.
    if known is not None and made.numel() > 0 and input.dim() > 0 and known.layout.host_size == list(input.shape) and input.is_contiguous():
        fake_layouts.set_layout(made, known.layout.restickify(dim), known.follows)
    return made


_SHAPES = {
    "restickify": _restickified,
    "to_layout": lambda input, layout: _chosen(_same(input), layout),
    "linear": lambda input, weight, bias=None: input.new_empty((*input.shape[:-1], *weight.shape[:-1])),
    "matmul": lambda input, other: torch.matmul(input, other).contiguous(),
    "sdpa": lambda query, key, value, *_, **__: query.new_empty((*query.shape[:-1], value.shape[-1])),
}


def _uploaded(input, layout, device):
    """The shape of what arrives on another device, which a kernel of the device "meta" cannot tell."""
    return _chosen(torch.empty_like(input, device=device), layout)


class _Moved(torch.autograd.Function):
    """A move of elements, which leaves the gradient as it is."""

    @staticmethod
    def forward(ctx, op, input, *args):
        ctx.device = input.device
        with torch._C._AutoDispatchBelowAutograd():
            return op(input, *args)

    @staticmethod
    def backward(ctx, grad):
        return (None, grad.to(ctx.device)) + (None,) * (len(ctx.needs_input_grad) - 2)


def _differentiable(name: str):
    """The gradient of an operator of the device is that of PyTorch's operator of the same meaning."""
    op, parts = getattr(torch.ops.spyre, name).default, _HOST[name]

    @torch._disable_dynamo
    def autograd(*args, **kwargs):
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            if name in ("restickify", "to_layout", "place", "upload"):
                return _Moved.apply(op, *args, *kwargs.values())
            return parts(*args, **kwargs)
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return autograd


def _written(layout):
    """A layout as Python code, and the names that the code needs."""
    return f"SpyreTensorLayout._read({layout._whole!r})", {"SpyreTensorLayout": _native.SpyreTensorLayout}


def _written_word(word):
    """A format or an arrangement as Python code, and the names that the code needs."""
    return repr(word), {type(word).__name__: type(word)}


def _traceable_layouts() -> None:
    """Makes layouts, formats and arrangements constants of traced graphs; without this, each would end its graph."""
    from torch._library.opaque_object import MemberType, register_custom_class

    writers = {_native.SpyreTensorLayout: _written, _native.DataFormats: _written_word, _native.ElementArrangement: _written_word}
    for kind, writer in writers.items():
        kind.__fx_repr__ = writer
        members = [name for name in dir(kind) if not name.startswith("_") or name == "_whole"]
        register_custom_class(kind, typ="constant", members=dict.fromkeys(members, MemberType.USE_REAL))


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
        if name != "upload":
            library.impl(name, _SHAPES.get(name, _same), "Meta")
        library.impl(name, _differentiable(name), "AutogradPrivateUse1")
        library.impl(name, _differentiable(name), "AutogradCPU")
    torch.library.register_fake("spyre::upload", _uploaded, lib=library)
    library.impl("full_with_layout", torch._disable_dynamo(_full_with_layout), "CompositeExplicitAutograd")
    library.impl("constant", _constant, "CompositeExplicitAutograd")
