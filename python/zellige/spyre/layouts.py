"""Tensors in device layouts of the user's choice."""

from __future__ import annotations

import torch

from .. import _native
from .._native import DataFormats, SpyreTensorLayout  # noqa: F401 - torch.spyre has them too


class WrongDevice(RuntimeError, ValueError):
    """Another device than the card. torch-spyre raises a ValueError, and PyTorch a RuntimeError, so this is both."""


def on_card(device, what: str) -> torch.device:
    """The device on which ``what`` is made; the default one where that is a card."""
    if device is None:
        # Dynamo cannot trace the question for the default device, and can trace a tensor that is made on it.
        usual = torch.empty(0).device if torch.compiler.is_compiling() else torch.get_default_device()
        device = usual if usual.type == "spyre" else "spyre"
    device = torch.device(device)
    if device.type != "spyre":
        raise WrongDevice(f"{what} needs the device spyre, not {device}")
    return device


def get_device_dtype(dtype: torch.dtype) -> DataFormats:
    """The format in which the card stores a dtype."""
    return _native.SpyreTensorLayout([1], dtype).device_dtype


def text_of(layout) -> str:
    """A layout as the text that operators take, with every field of it."""
    if not isinstance(layout, _native.SpyreTensorLayout):
        raise TypeError(f"a device layout is a SpyreTensorLayout, not {layout!r}")
    return layout._whole


def empty_with_layout(size, layout, *, dtype=None, device=None, stride=None, requires_grad=False):
    """A tensor of zeros in a device layout."""
    return full_with_layout(size, 0, layout, dtype=dtype, device=device, stride=stride, requires_grad=requires_grad)


def full_with_layout(size, value, layout, *, dtype=None, device=None, stride=None, requires_grad=False):
    """A tensor in a device layout, all of whose elements are one number."""
    device = on_card(device, "a device layout")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    made = torch.ops.spyre.full_with_layout(list(size), value, text_of(layout), stride, dtype, device)
    return made.requires_grad_(requires_grad) if requires_grad else made


def to_with_layout(tensor: torch.Tensor, layout, device=None, dtype=None) -> torch.Tensor:
    """The tensor on the device, in a device layout. A tensor in another layout is moved."""
    if dtype is not None and dtype != tensor.dtype:
        tensor = tensor.to(dtype)
    if tensor.device.type == "spyre" and (device is None or torch.device(device) in (tensor.device, torch.device("spyre"))):
        # While a graph is traced, its tensors have no layout.
        if type(tensor) in (torch.Tensor, torch.nn.Parameter) and not torch.compiler.is_compiling():
            if not _is_view(tensor) and _native.tensor_layout(tensor) == layout:
                return tensor
        return torch.ops.spyre.to_layout(tensor, text_of(layout))
    return torch.ops.spyre.upload(tensor, text_of(layout), on_card(device, "a device layout"))


def _dense(tensor: torch.Tensor) -> bool:
    return torch.ops.aten.is_non_overlapping_and_dense(tensor)


def _is_view(tensor: torch.Tensor) -> bool:
    return tensor._is_view()


def new_empty_with_layout(tensor, size, layout, *, dtype=None, device=None):
    """A tensor of zeros with the dtype and the card of ``tensor``, in a device layout."""
    device = tensor.device if device is None and tensor.device.type == "spyre" else device
    return empty_with_layout(size, layout, dtype=dtype or tensor.dtype, device=device)


def restickify(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """The same elements with the sticks along another dimension."""
    return torch.ops.spyre.restickify(tensor, dim)
