"""Copies, casts, views and storages."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from ... import _native
from .. import dynamic
from ..fallback import record
from .registration import KERNELS, kernel, run


# Views and storages.


# Dynamo has no Python frame to compile in functions of the native module: they need no wrapper.
KERNELS["view"] = KERNELS["_unsafe_view"] = _native.view
KERNELS["as_strided"] = KERNELS["_reshape_alias"] = _native.as_strided
KERNELS["unfold"] = _native.unfold


@kernel("resize_")
def _resize(self, size, *, memory_format=None):
    if dynamic.resize(self, size, memory_format):
        return self
    if list(self.shape) != list(size):
        # A stick layout cannot grow in place, so the tensor gets another storage.
        if _native.is_held(self.dtype):
            made = torch.zeros(size, dtype=self.dtype).flatten()
            kept = self.detach().cpu().flatten()[: made.numel()]
            made[: kept.numel()] = kept
            self.data = made.view(size).to(self.device)
            return self
        self.data = _native.resized(self.detach().contiguous(), size, self.dtype)
    return self


@kernel("set_.source_Tensor")
def _set_tensor(self, source):
    self.data = source
    return self


@kernel("set_.source_Storage_storage_offset", "set_.source_Storage", "set_")
def _set_storage(self, *args, **kwargs):
    raise NotImplementedError(
        "a storage of the device has the layout of its tensor, and cannot be given to another: use "
        "set_(tensor) or copy_(tensor)"
    )


@kernel("record_stream")
def _record_stream(self, s):
    # The simulated card reuses memory in program order, so no stream can still read what was freed.
    return None


# Copies.


@kernel("_copy_from")
def _copy_from(self, dst, non_blocking=False):
    if self.dtype is not dst.dtype:
        if self.device.type != "spyre":
            self = self.to(dst.dtype)
        elif dst.device.type != "spyre":
            dst.copy_(self.cpu())
            return dst
        else:
            self = cast(self, dst.dtype)
    _native.copy(self, dst)
    return dst


@torch._disable_dynamo
def copy_from_lazy(self, dst, non_blocking=False):
    """A copy where one side is a lazy conjugate or negative. PyTorch would copy into a resolved copy of
    ``dst`` and forget it, as the schema does not say that ``dst`` is written."""
    self = self.resolve_conj().resolve_neg()
    if dst.is_conj() or dst.is_neg():
        return dst.copy_(self.cpu())
    return torch.ops.aten._copy_from(self, dst, non_blocking)


@kernel("_copy_from_and_resize")
def _copy_from_and_resize(self, dst):
    if dst.shape != self.shape:
        dst.resize_(self.shape)
    return _copy_from(self, dst)


def _physical(tensor):
    """A tensor whose elements are conjugated or negated in memory, and not by PyTorch's lazy bit for it."""
    if tensor.is_conj():
        return torch._conj(tensor).cpu().conj_physical().to(tensor.device)
    if tensor.is_neg():
        return torch._neg_view(tensor).cpu().neg().to(tensor.device)
    return tensor


@kernel("_local_scalar_dense")
def _item(self):
    return self.cpu().item() if _native.is_held(self.dtype) else _native.item(self)


def _is_asked_by_a_collective() -> bool:
    frame = sys._getframe(2)
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_code.co_filename == dist.distributed_c10d.__file__:
            return True
        frame = frame.f_back
    return False


@kernel("view_as_real", "view_as_complex")
def _view_as(self):
    # The card stores the bits of a complex number as integers: what is a view in PyTorch is a copy here.
    if self.is_complex() and _is_asked_by_a_collective():
        raise NotImplementedError(
            f"a collective of {self.dtype}: PyTorch hands it a view in real numbers, which is a copy on this device, so that results "
            "would not arrive; exchange torch.view_as_real(x), and make the result of it by torch.view_as_complex"
        )
    op = torch.view_as_real if self.is_complex() else torch.view_as_complex
    record(f"aten::{op.__name__}", self.numel() * self.element_size(), f"the card holds {self.dtype}, and does not compute with it")
    return op(self.cpu().resolve_conj()).to(self.device)


def cast(tensor, dtype):
    if _native.is_held(dtype) or _native.is_held(tensor.dtype):
        held = dtype if _native.is_held(dtype) else tensor.dtype
        record("aten::_to_copy", tensor.numel() * tensor.element_size(), f"the card holds {held}, and does not compute with it")
        return tensor.cpu().to(dtype).to(tensor.device)
    return run("cast", [tensor], dtype=dtype, wide=_native.keeps(dtype) or None)


@kernel("_to_copy")
def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    if _native.is_held(self.dtype):
        self = _physical(self)
    dtype = self.dtype if dtype is None else dtype
    device = self.device if device is None else device
    if device.type == "spyre" and device.index is None:
        device = torch.device("spyre", torch.spyre.current_device())
    if device == self.device:
        if memory_format not in (None, torch.preserve_format):
            out = torch.empty(self.shape, dtype=dtype, device=device, memory_format=memory_format)
            return out.copy_(self)
        return _clone(self) if dtype == self.dtype else cast(self, dtype)
    out = torch.empty_like(self, device=device, memory_format=memory_format or torch.preserve_format)
    _native.copy(self, out)
    return out if dtype == self.dtype else out.to(dtype)


@kernel("clone")
def _clone(self, *, memory_format=None):
    if _native.is_held(self.dtype):
        self = _physical(self)
        out = torch.empty_like(self, memory_format=memory_format or torch.preserve_format)
        _native.copy(self, out)
        return out
    if memory_format in (None, torch.preserve_format) or (
        memory_format == torch.contiguous_format and self.is_contiguous()
    ):
        return run("clone", [self])
    if memory_format == torch.contiguous_format:
        return _native.clone_contiguous(self)
    out = torch.empty(self.shape, dtype=self.dtype, device=self.device, memory_format=memory_format)
    _native.copy(self, out)
    return out
