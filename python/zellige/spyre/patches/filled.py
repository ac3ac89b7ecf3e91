"""``device_layout=`` of the functions that make a tensor of one number: ``zeros``, ``new_full``, ``ones_like``, ..."""

from __future__ import annotations

import functools

import torch

from ..layouts import full_with_layout
from .arguments import size_of, with_layout

# Arguments that PyTorch's functions have and that mean nothing for a tensor of the card.
_WITHOUT_MEANING = ("layout", "pin_memory", "names")


def _options(dtype, device, requires_grad=False, **others) -> dict:
    unknown = [name for name in others if name not in _WITHOUT_MEANING]
    if unknown:
        accepted = "dtype, device, requires_grad and " + ", ".join(_WITHOUT_MEANING)
        raise TypeError(f"unexpected argument {unknown[0]!r} beside device_layout; accepted are {accepted}")
    return dict(dtype=dtype, device=device, requires_grad=requires_grad)


def _beside(tensor, dtype, device, options) -> dict:
    device = tensor.device if device is None and tensor.device.type == "spyre" else device
    return _options(tensor.dtype if dtype is None else dtype, device, **options)


def _plain(value):
    def make(*sizes, device_layout, size=None, dtype=None, device=None, **options):
        return full_with_layout(size_of(sizes, size), value, device_layout, **_options(dtype, device, **options))

    return make


def _full(size, fill_value, *, device_layout, dtype=None, device=None, **options):
    if dtype is None:
        kinds = {bool: torch.bool, int: torch.int64}
        dtype = kinds.get(type(fill_value), torch.get_default_dtype())
    return full_with_layout(size_of((size,)), fill_value, device_layout, **_options(dtype, device, **options))


def _new(value):
    def make(self, *sizes, device_layout, size=None, dtype=None, device=None, **options):
        return full_with_layout(size_of(sizes, size), value, device_layout, **_beside(self, dtype, device, options))

    return make


def _new_full(self, size, fill_value, *, device_layout, dtype=None, device=None, **options):
    return full_with_layout(size_of((size,)), fill_value, device_layout, **_beside(self, dtype, device, options))


def _full_like(input, fill_value, *, device_layout, dtype=None, device=None, memory_format=torch.preserve_format, **options):
    if memory_format not in (torch.preserve_format, torch.contiguous_format):
        raise ValueError(f"{memory_format} beside device_layout; accepted are preserve_format and contiguous_format")
    keeps = memory_format is torch.preserve_format and not input.is_contiguous()
    stride = input.stride() if keeps and torch.ops.aten.is_non_overlapping_and_dense(input) else None
    return full_with_layout(input.shape, fill_value, device_layout, stride=stride, **_beside(input, dtype, device, options))


def _like(value):
    def make(input, *, device_layout, **options):
        return _full_like(input, value, device_layout=device_layout, **options)

    return make


_IN_LAYOUT = {
    "zeros": _plain(0),
    "ones": _plain(1),
    "full": _full,
    "empty_like": _like(0),
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "full_like": _full_like,
    "new_zeros": _new(0),
    "new_ones": _new(1),
    "new_full": _new_full,
}
# Functions of the module torch, and methods of tensors.
FUNCTIONS = tuple(name for name in _IN_LAYOUT if not name.startswith("new_"))
METHODS = tuple(name for name in _IN_LAYOUT if name.startswith("new_"))


def takes_layout(name: str):
    """How PyTorch's function of that name becomes one that takes `device_layout` too."""
    return functools.partial(_changed, name)


def _changed(name, original):
    return with_layout(original, _IN_LAYOUT[name])
