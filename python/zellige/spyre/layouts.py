"""Tensors in device layouts of the user's choice."""

from __future__ import annotations

import torch

from .. import _native


def _index(device: torch.device) -> int:
    return torch.spyre.current_device() if device.index is None else device.index


class WrongDevice(RuntimeError, ValueError):
    """Another device than the card. torch-spyre says ValueError, and PyTorch RuntimeError: it is both."""


def on_card(device, what: str) -> torch.device:
    """The device that ``what`` is asked for; the default one where that is a card."""
    usual = torch.get_default_device()
    device = torch.device(device if device is not None else usual if usual.type == "spyre" else "spyre")
    if device.type != "spyre":
        raise WrongDevice(f"{what} needs the device spyre, not {device}")
    return device


def empty_with_layout(size, layout, *, dtype=None, device=None, stride=None, requires_grad=False):
    """A tensor of zeros in a device layout."""
    device = on_card(device, "a device layout")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    stride = None if stride is None else list(stride)
    made = _native.empty_with_layout(list(size), dtype, _index(device), layout, stride)
    return made.requires_grad_(requires_grad) if requires_grad else made


def to_with_layout(tensor: torch.Tensor, layout, device=None, dtype=None) -> torch.Tensor:
    """The tensor on the device, in a device layout. A tensor in another layout is moved."""
    if dtype is not None and dtype != tensor.dtype:
        tensor = tensor.to(dtype)
    if tensor.device.type == "spyre" and (device is None or torch.device(device) in (tensor.device, torch.device("spyre"))):
        from .ops import in_layout

        # While a graph is traced, its tensors have no layout.
        if type(tensor) in (torch.Tensor, torch.nn.Parameter) and not torch.compiler.is_compiling():
            if not _is_view(tensor) and _native.tensor_layout(tensor) == layout:
                return tensor
        return in_layout(tensor, layout)
    if tensor.requires_grad and torch.is_grad_enabled():
        # The move to the device is differentiable in two steps: the copy, then the layout.
        return to_with_layout(tensor.to("spyre" if device is None else device), layout)
    stride = tensor.stride() if _dense(tensor) else None
    made = empty_with_layout(tensor.size(), layout, dtype=tensor.dtype, device=device, stride=stride)
    made.copy_(tensor.detach())
    return made


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
