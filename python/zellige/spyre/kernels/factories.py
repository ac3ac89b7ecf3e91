"""Factories: tensors that are made, and tensors that are filled with one number."""

from __future__ import annotations

import math

import torch

from ... import _native
from .registration import card_index, kernel, run_into


@kernel("empty.memory_format")
def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    if pin_memory:
        raise RuntimeError("pin_memory is for host memory; the device has its own")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    stride = None
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        stride = list(torch.empty(size, device="meta", memory_format=memory_format).stride())
    return _native.empty(size, dtype, card_index(device), stride)


@kernel("empty_strided")
def _empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    if pin_memory:
        raise RuntimeError("pin_memory is for host memory; the device has its own")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return _native.empty_strided(size, dtype, card_index(device), stride)


@kernel("arange.start_out")
def _arange_out(start, end, step=1, *, out):
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(x, int) for x in (start, end, step))
    # With integer bounds the count is exact in integers: a floating-point quotient would lose digits of large bounds.
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    if list(out.shape) != [count]:
        out.resize_([count])
    if count == 0:
        return out
    if not out.dtype.is_floating_point:
        # The number of elements comes from the bounds as they are, the elements from whole ones.
        start, step = int(start), int(step)
        if not -(2**63) <= start + step * count < 2**63:
            # The end is not an element: it may be past the largest integer although no element is.
            return torch.add(torch.arange(count, device=out.device) * step, start, out=out)
    return run_into("arange", [], out, start=start, end=start + step * count, step=step, **made_like(out))


@kernel("linspace.out")
def _linspace_out(start, end, steps, *, out):
    if list(out.shape) != [steps]:
        out.resize_([steps])
    if steps == 0:
        return out
    if not out.dtype.is_floating_point:
        start, end = int(start), int(end)
    attributes = dict(start=float(start), end=float(end), steps=steps)
    return run_into("linspace", [], out, **attributes, **made_like(out))


@kernel("eye.out")
def _eye_out(n, *, out):
    return _eye_m_out(n, n, out=out)


@kernel("eye.m_out")
def _eye_m_out(n, m, *, out):
    if list(out.shape) != [n, m]:
        out.resize_([n, m])
    return out if out.numel() == 0 else run_into("eye", [], out, n=n, m=m, **made_like(out))


def made_like(out) -> dict:
    """The attributes of a factory whose result is written into a tensor."""
    return dict(dtype=out.dtype, wide=_native.is_wide(out), device=out.device.index)


def _fill(tensor, value):
    if tensor.dtype is torch.bool:
        value = bool(value)
    elif isinstance(value, int) and not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.int64):
        # Narrow integers wrap, as their arithmetic does.
        limits = torch.iinfo(tensor.dtype)
        value = (value - limits.min) % (limits.max - limits.min + 1) + limits.min
    _written(tensor, value)
    return tensor


def _written(tensor, value: float):
    """Writes one number into all elements, also of views where several elements share an address."""
    try:
        _native.fill(tensor, value)
    except _native.LayoutError:
        if tensor.numel() < 2:
            raise
        repeated = [n > 1 and s == 0 for n, s in zip(tensor.shape, tensor.stride())]
        if any(repeated):
            # All rows of an expanded dimension are the same memory: one of them is written.
            return _written(tensor[tuple(slice(1 if r else None) for r in repeated)], value)
        shortest = min((d for d in range(tensor.dim()) if tensor.shape[d] > 1), key=lambda d: tensor.shape[d])
        for part in tensor.unbind(shortest):
            _written(part, value)


@kernel("fill_.Scalar")
def _fill_scalar(self, value):
    return _fill(self, value)


@kernel("fill_.Tensor")
def _fill_tensor(self, value):
    if value.dim() != 0:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
        )
    return _fill(self, value.item())


@kernel("zero_")
def _zero(self):
    _written(self, 0.0)
    return self
