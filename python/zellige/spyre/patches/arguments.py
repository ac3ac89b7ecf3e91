"""Arguments of the device in PyTorch's own functions: ``device_layout=``, ``max=`` and ``dynamic=``."""

from __future__ import annotations

import functools

import torch

from ... import _native
from ..dynamic import empty_dynamic, reservation, to_dynamic
from ..fake_layouts import find_layout, is_fake
from ..layouts import empty_with_layout, to_with_layout
from .accelerator import is_current


def device_tensor_layout(self):
    """The layout of the tensor's storage on the device; None for a tensor elsewhere."""
    if self.device.type != "spyre":
        return None
    if is_fake(self):
        known = find_layout(self)
        if known is None:
            raise RuntimeError(
                "the layout of this fake tensor is not known: kernels choose the layouts of their results when they run"
            )
        return known.layout
    # A tensor without elements has no address by which its storage is known.
    reserved = reservation(self) if self.numel() == 0 else None
    return _native.tensor_layout(self) if reserved is None else reserved.layout


def _unpinned(kwargs: dict) -> dict:
    """The arguments without ``pin_memory`` where a tensor of the host is asked to be pinned for the card: the simulated
    one reads all memory of the host alike, and PyTorch has no allocator of pinned memory for it."""
    if not kwargs.get("pin_memory") or not is_current():
        return kwargs
    device = kwargs.get("device")
    on_host = torch.device(torch.get_default_device() if device is None else device).type == "cpu"
    return {**kwargs, "pin_memory": False} if on_host else kwargs


def with_layout(original, in_layout):
    """A function that takes `device_layout` too."""

    @functools.wraps(original)
    def function(*args, device_layout=None, **kwargs):
        if device_layout is None:
            return original(*args, **(_unpinned(kwargs) if "pin_memory" in kwargs else kwargs))
        return in_layout(*args, device_layout=device_layout, **kwargs)

    return function


def _with_sizes(original, in_layout, in_sizes):
    """A function that takes `device_layout`, `max` and `dynamic` too."""

    @functools.wraps(original)
    def function(*args, device_layout=None, max=None, dynamic=None, **kwargs):
        if device_layout is None and max is None and dynamic is None:
            return original(*args, **(_unpinned(kwargs) if "pin_memory" in kwargs else kwargs))
        if max is None and dynamic is None:
            return in_layout(*args, device_layout=device_layout, **kwargs)
        return in_sizes(*args, device_layout=device_layout, max=max, dynamic=dynamic, **kwargs)

    return function


def size_of(args, named=None) -> list:
    """The size that arguments name: as a list, as numbers, or by the name `size`."""
    if named is not None and args:
        raise TypeError("the size is given twice: in order and by its name")
    args = (named,) if named is not None else args
    return list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else list(args)


def _target(args, kwargs):
    """The device and the dtype that arguments of `to` name."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for arg in args:
        if isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, torch.Tensor):
            device, dtype = arg.device, arg.dtype
        elif isinstance(arg, (str, torch.device, int)) and not isinstance(arg, bool):
            device = torch.device(arg)
    return device, dtype


def _to(self, *args, device_layout, non_blocking=False, copy=False, memory_format=None, **kwargs):
    device, dtype = _target(args, kwargs)
    if device is not None and torch.device(device).type != "spyre":
        raise RuntimeError(f"a device layout needs the device spyre, not {device}")
    return to_with_layout(self, device_layout, device, dtype)


def _to_sizes(self, *args, max, dynamic, device_layout=None, non_blocking=False, copy=False, memory_format=None, **kwargs):
    device, dtype = _target(args, kwargs)
    return to_dynamic(self, max=max, dynamic=dynamic, layout=device_layout, device=device, dtype=dtype, copy=copy)


def _empty(*sizes, device_layout, size=None, dtype=None, device=None, requires_grad=False, **_):
    return empty_with_layout(size_of(sizes, size), device_layout, dtype=dtype, device=device, requires_grad=requires_grad)


def _empty_sizes(*sizes, max, dynamic, device_layout=None, size=None, dtype=None, device=None, requires_grad=False, **_):
    given = dict(max=max, dynamic=dynamic, layout=device_layout, requires_grad=requires_grad)
    return empty_dynamic(size_of(sizes, size), dtype=dtype, device=device, **given)


def _empty_strided(size, stride, *, device_layout, dtype=None, device=None, requires_grad=False, **_):
    return empty_with_layout(size, device_layout, dtype=dtype, device=device, stride=stride, requires_grad=requires_grad)


def _beside(self, dtype, device) -> dict:
    """The dtype and the card of a tensor that is made beside another."""
    return dict(dtype=dtype or self.dtype, device=device or (self.device if self.device.type == "spyre" else "spyre"))


def _new_empty(self, *size, dtype=None, device=None, **kwargs):
    return _empty(*size, **_beside(self, dtype, device), **kwargs)


def _new_empty_sizes(self, *size, dtype=None, device=None, **kwargs):
    return _empty_sizes(*size, **_beside(self, dtype, device), **kwargs)


def _new_empty_strided(self, size, stride, *, dtype=None, device=None, **kwargs):
    return _empty_strided(size, stride, **_beside(self, dtype, device), **kwargs)


def to(original):
    """``Tensor.to`` with the device's arguments."""
    return _with_sizes(original, _to, _to_sizes)


def new_empty(original):
    """``Tensor.new_empty`` with the device's arguments."""
    return _with_sizes(original, _new_empty, _new_empty_sizes)


def new_empty_strided(original):
    """``Tensor.new_empty_strided`` with the device's argument."""
    return with_layout(original, _new_empty_strided)


def empty(original):
    """``torch.empty`` with the device's arguments."""
    return _with_sizes(original, _empty, _empty_sizes)


def empty_strided(original):
    """``torch.empty_strided`` with the device's argument."""
    return with_layout(original, _empty_strided)


def list_lazy_methods():
    """Lazy parameters list the methods that may be called on them by identity: the new `to` is one of them."""
    methods, ours = torch.nn.parameter.UninitializedTensorMixin._allowed_methods, torch.Tensor.to
    methods.append(ours)
    return lambda: methods.remove(ours)


def list_builtins(names):
    """``torch.jit.script`` knows operators by the identities of their functions: the replaced ones are operators too."""

    def apply():
        from torch.jit._builtins import _get_builtin_table

        table = _get_builtin_table()
        ours = {id(getattr(torch, name)): "aten::" + name for name in names}
        table.update(ours)
        return lambda: [table.pop(function) for function in ours]

    return apply


def list_factories():
    """``with torch.device(...)`` changes the functions of a set that PyTorch fills once: the new factories are in it."""
    from torch.utils._device import _device_constructors

    factories, ours = _device_constructors(), {torch.empty, torch.empty_strided, torch.zeros, torch.ones, torch.full}
    # Where the set was not filled before, PyTorch's own ones are missing in it.
    factories.update(ours, (function.__wrapped__ for function in ours))
    return lambda: factories.difference_update(ours)
