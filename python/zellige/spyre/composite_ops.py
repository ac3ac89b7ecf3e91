"""Operators of ``torch.ops.spyre`` that are made of PyTorch's own: writes at offsets, and casts to eight bits.

Each is decomposed where it is traced, so that a compiler sees operators that it knows, and eager calls, gradients
and the CPU need nothing of their own.
"""

from __future__ import annotations

import torch

_libraries: list[torch.library.Library] = []
_FLOAT8 = torch.float8_e4m3fn
# The largest number of the format.
_MOST = 448.0

_SCHEMAS = {
    "overwrite": "(Tensor input, Tensor(a!) output, SymInt[] dims, SymInt[] offsets) -> ()",
    "overwrite_f": "(Tensor input, Tensor output, SymInt[] dims, SymInt[] offsets) -> Tensor",
    "qfp8ch": "(Tensor input) -> Tensor",
    "qfp8wt": "(Tensor input) -> Tensor",
    "quantize_fp8_with_scale": "(Tensor input, Tensor scale) -> Tensor",
    "quantize_weight_fp8_with_scale": "(Tensor input, Tensor scale) -> Tensor",
    "dequantize_fp8_with_scale": "(Tensor input, Tensor scale) -> Tensor",
}


def _part(input, output, dims, offsets):
    """The part of ``output`` that ``input`` is written to."""
    if len(dims) != len(offsets):
        raise ValueError(f"overwrite takes one offset for each dimension, not {len(offsets)} for {len(dims)}")
    if input.dim() != output.dim():
        raise ValueError(f"overwrite writes {input.dim()} dimensions into {output.dim()}")
    part = output
    for dim, offset in zip(dims, offsets):
        if offset < 0 or offset + input.size(dim) > output.size(dim):
            raise IndexError(
                f"overwrite writes elements {offset} to {offset + input.size(dim)} of dimension {dim}, which has {output.size(dim)}"
            )
        part = part.narrow(dim, offset, input.size(dim))
    if part.shape != input.shape:
        raise ValueError(f"overwrite writes {list(input.shape)} into {list(part.shape)}: name every dimension that is shorter")
    return part


def _overwrite(input, output, dims, offsets):
    _part(input, output, dims, offsets).copy_(input)


def _overwrite_f(input, output, dims, offsets):
    result = output.clone()
    _overwrite(input, result, dims, offsets)
    return result


def _to_float8(input):
    if not input.dtype.is_floating_point:
        raise TypeError(f"a cast to {_FLOAT8} takes floats, not {input.dtype}")
    return input.to(_FLOAT8)


def _quantize(input, scale):
    return _to_float8((input * scale.reciprocal()).clamp(-_MOST, _MOST))


def _dequantize(input, scale):
    if input.dtype != _FLOAT8:
        raise TypeError(f"dequantize_fp8_with_scale takes {_FLOAT8}, not {input.dtype}")
    return input.to(torch.float16) * scale


_PARTS = {
    "overwrite": _overwrite,
    "overwrite_f": _overwrite_f,
    # On the card the two differ in the order of elements within a stick, which follows from the layout here.
    "qfp8ch": _to_float8,
    "qfp8wt": _to_float8,
    "quantize_fp8_with_scale": _quantize,
    "quantize_weight_fp8_with_scale": _quantize,
    "dequantize_fp8_with_scale": _dequantize,
}


def install() -> None:
    """Defines the operators."""
    library = torch.library.Library("spyre", "FRAGMENT")
    _libraries.append(library)
    for name, schema in _SCHEMAS.items():
        library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, _PARTS[name], "CompositeImplicitAutograd")
