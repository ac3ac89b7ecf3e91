"""What PyTorch's own functions have to know of the device.

Arguments about layouts and reserved sizes (`device_layout=`, `max=`, `dynamic=`), and the few places
where PyTorch would read a storage as bytes: printing, pickling, copying deeply, loading.
"""

from __future__ import annotations

import copy
import functools
import threading

import torch

from .. import _native
from .dynamic import copied, empty_dynamic, reservation, to_dynamic
from .layouts import empty_with_layout, to_with_layout


def _device_tensor_layout(self):
    """How the tensor's storage lies on the device; None for a tensor elsewhere."""
    if self.device.type != "spyre" or isinstance(self, torch._subclasses.FakeTensor):
        return None
    # A tensor without elements has no address by which its storage is known.
    reserved = reservation(self) if self.numel() == 0 else None
    return _native.tensor_layout(self) if reserved is None else reserved.layout


def _extended(original, in_layout, in_sizes=None):
    """A function that takes `device_layout` too; and `max` and `dynamic`, where there is one for them."""

    @functools.wraps(original)
    def function(*args, device_layout=None, **kwargs):
        if device_layout is None:
            return original(*args, **kwargs)
        return in_layout(*args, device_layout=device_layout, **kwargs)

    @functools.wraps(original)
    def sized(*args, device_layout=None, max=None, dynamic=None, **kwargs):
        if device_layout is None and max is None and dynamic is None:
            return original(*args, **kwargs)
        if max is None and dynamic is None:
            return in_layout(*args, device_layout=device_layout, **kwargs)
        return in_sizes(*args, device_layout=device_layout, max=max, dynamic=dynamic, **kwargs)

    return function if in_sizes is None else sized


def _size(args):
    return list(args[0]) if len(args) == 1 and not isinstance(args[0], int) else list(args)


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


def _empty(*size, device_layout, dtype=None, device=None, requires_grad=False, **_):
    return empty_with_layout(_size(size), device_layout, dtype=dtype, device=device, requires_grad=requires_grad)


def _empty_sizes(*size, max, dynamic, device_layout=None, dtype=None, device=None, requires_grad=False, **_):
    given = dict(max=max, dynamic=dynamic, layout=device_layout, requires_grad=requires_grad)
    return empty_dynamic(_size(size), dtype=dtype, device=device, **given)


def _empty_strided(size, stride, *, device_layout, dtype=None, device=None, requires_grad=False, **_):
    return empty_with_layout(size, device_layout, dtype=dtype, device=device, stride=stride, requires_grad=requires_grad)


def _new_empty(self, *size, device_layout, dtype=None, device=None, requires_grad=False, **_):
    device = device or (self.device if self.device.type == "spyre" else "spyre")
    return empty_with_layout(_size(size), device_layout, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def _new_empty_sizes(self, *size, dtype=None, device=None, **kwargs):
    device = device or (self.device if self.device.type == "spyre" else "spyre")
    return _empty_sizes(*size, dtype=dtype or self.dtype, device=device, **kwargs)


def _new_empty_strided(self, size, stride, *, device_layout, dtype=None, device=None, requires_grad=False, **_):
    device = device or (self.device if self.device.type == "spyre" else "spyre")
    return empty_with_layout(size, device_layout, dtype=dtype or self.dtype, device=device, stride=stride, requires_grad=requires_grad)


def _patch_layouts() -> None:
    Tensor = torch.Tensor
    # PyTorch keeps a set of factories; it must be made before one of them is replaced.
    from torch.utils._device import _device_constructors

    _device_constructors()
    Tensor.device_tensor_layout = _device_tensor_layout
    Tensor.to = _extended(Tensor.to, _to, _to_sizes)
    Tensor.new_empty = _extended(Tensor.new_empty, _new_empty, _new_empty_sizes)
    Tensor.new_empty_strided = _extended(Tensor.new_empty_strided, _new_empty_strided)
    Tensor.to_with_layout = to_with_layout
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(Tensor.to)
    torch.empty = _extended(torch.empty, _empty, _empty_sizes)
    torch.empty_strided = _extended(torch.empty_strided, _empty_strided)
    _device_constructors().update((torch.empty, torch.empty_strided))


def _rebuild(values, layout, device, requires_grad):
    tensor = to_with_layout(values, layout, device) if layout is not None else values.to(device)
    return tensor.requires_grad_(requires_grad)


def _patch_storages() -> None:
    Tensor = torch.Tensor
    reduce, deepcopy, text, load = Tensor._reduce_ex_internal, Tensor.__deepcopy__, Tensor.__repr__, torch.load

    def _reduce_ex_internal(self, proto):
        if self.device.type != "spyre" or type(self) not in (Tensor, torch.nn.Parameter):
            return reduce(self, proto)
        args = (self.detach().cpu(), self.dtype, str(self.device), self.requires_grad)
        return torch._utils._rebuild_device_tensor_from_cpu_tensor, args

    def __deepcopy__(self, memo):
        if self.device.type != "spyre" or type(self) is not Tensor or not self.is_leaf:
            return deepcopy(self, memo)
        if id(self) not in memo:
            made = copied(self)
            made = self.detach().clone() if made is None else made
            memo[id(self)] = made.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents=None):
        plain = type(self) in (Tensor, torch.nn.Parameter, torch.nn.Buffer)
        if tensor_contents is None and plain and self.device.type == "spyre":
            tensor_contents = torch._tensor_str._tensor_str(self.detach().cpu(), len("tensor("))
        return text(self, tensor_contents=tensor_contents)

    def __copy__(self):
        if self.device.type == "spyre" and type(self) is Tensor:
            # The same storage: what a pickle has would be another one.
            return self.detach().requires_grad_(self.requires_grad)
        return copy._reconstruct(self, None, *self.__reduce_ex__(4))

    @functools.wraps(load)
    def load_(f, map_location=None, *args, **kwargs):
        if isinstance(map_location, (str, torch.device)) and torch.device(map_location).type == "spyre":
            return _moved(load(f, "cpu", *args, **kwargs), map_location)
        if not callable(map_location):
            return load(f, map_location, *args, **kwargs)
        at = f.tell() if hasattr(f, "tell") else None
        try:
            return load(f, map_location, *args, **kwargs)
        except RuntimeError as error:
            # PyTorch takes no function for tensors that are not stored as bytes of their device. The
            # usual one leaves storages where they are, which is on the CPU.
            place = map_location(torch.UntypedStorage(0), "spyre:0")
            if "Callable map_location" not in str(error) or place is None or place.device.type != "cpu":
                raise
        if at is not None:
            f.seek(at)
        return load(f, "cpu", *args, **kwargs)

    Tensor._reduce_ex_internal = _reduce_ex_internal
    Tensor.__deepcopy__ = __deepcopy__
    Tensor.__copy__ = __copy__
    Tensor.__repr__ = __repr__
    torch.load = load_


def _received(data, dtype, size, device, requires_grad):
    """A tensor of the device from another process."""
    made = torch.frombuffer(bytearray(data), dtype=dtype).reshape(size) if data else torch.empty(size, dtype=dtype)
    return made.to(device).requires_grad_(requires_grad)


def _patch_processes() -> None:
    """Tensors that go to other processes, and batches that come from them."""
    from multiprocessing.reduction import ForkingPickler

    from torch.multiprocessing import reductions
    from torch.utils.data._utils import collate

    def send(original):
        def reduced(tensor):
            if tensor.device.type != "spyre" or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                return original(tensor)
            if type(tensor) is torch.nn.Parameter:
                return torch.nn.Parameter, (tensor.detach(), tensor.requires_grad)
            if tensor.requires_grad and not tensor.is_leaf:
                raise RuntimeError(
                    "a tensor that was computed with gradients cannot go to another process: detach() it first"
                )
            # Another process has a card of its own, so the elements go there. They go as bytes: a file of shared
            # memory would be closed with the copy on the host, before the other process has opened it.
            host = tensor.detach().cpu().contiguous().flatten()
            data = host.view(torch.uint8).numpy().tobytes() if host.numel() else b""
            return _received, (data, tensor.dtype, tuple(tensor.shape), str(tensor.device), tensor.requires_grad)

        return reduced

    ForkingPickler.register(torch.Tensor, send(reductions.reduce_tensor))
    ForkingPickler.register(torch.nn.Parameter, send(reductions.reduce_tensor))
    stack = collate.default_collate_fn_map[torch.Tensor]

    @functools.wraps(stack)
    def stacked(batch, *, collate_fn_map=None):
        if batch[0].device.type == "spyre":
            # In a worker PyTorch would stack into shared memory, which the card does not have.
            return torch.stack(batch, 0)
        return stack(batch, collate_fn_map=collate_fn_map)

    collate.collate_tensor_fn = collate.default_collate_fn_map[torch.Tensor] = stacked


def _patch_streams() -> None:
    record = torch.Tensor.record_stream

    @functools.wraps(record)
    def record_stream(self, stream):
        if self.device.type != "spyre" or isinstance(self, torch._subclasses.FakeTensor):
            return record(self, stream)
        from .streams import Stream

        if not isinstance(stream, (Stream, torch.Stream)):
            raise TypeError(f"record_stream expects a torch.spyre.Stream for a tensor on {self.device}, not {type(stream).__name__}")
        # Memory of the simulated card is given to others in the order of the program, whatever the stream.
        return None

    torch.Tensor.record_stream = record_stream


def _moved(value, device):
    """What was loaded, with its tensors on a device; what was one tensor stays one."""
    from torch.utils._pytree import tree_map

    memo: dict[int, object] = {}

    def move(v):
        if isinstance(v, torch.nn.Module):
            return v.to(device)
        if not isinstance(v, torch.Tensor):
            return v
        if id(v) not in memo:
            moved = v.detach().to(device)
            moved = torch.nn.Parameter(moved, v.requires_grad) if isinstance(v, torch.nn.Parameter) else moved.requires_grad_(v.requires_grad)
            # The original is kept so that no other one gets its number.
            memo[id(v)] = moved, v
        return memo[id(v)][0]

    return tree_map(move, value)


def _patch_storage_class() -> None:
    new = torch.UntypedStorage.__new__

    def __new__(cls, *args, device=None, **kwargs):
        # PyTorch would ask an allocator that only C++ can register, and crash.
        if device is not None and torch.device(device).type == "spyre":
            raise NotImplementedError(
                "storages of the device come with a tensor: make one with torch.empty(..., device='spyre')"
            )
        return new(cls, *args, **({} if device is None else {"device": device}), **kwargs)

    resize = torch.UntypedStorage.resize_

    @functools.wraps(resize)
    def resize_(self, size):
        if self.device.type != "spyre":
            return resize(self, size)
        if size > self.nbytes():
            raise NotImplementedError(
                f"a storage of the device has {self.nbytes()} bytes and cannot grow to {size}: make another tensor"
            )
        # Who gives memory back for a while, as sharded modules do, finds it again: it stays with its tensor.
        return self

    torch.UntypedStorage.resize_ = resize_
    torch.UntypedStorage.__new__ = staticmethod(__new__)


def _patch_accelerator() -> None:
    synchronize = torch.accelerator.synchronize

    @functools.wraps(synchronize)
    def synchronize_(device=None, /):
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is not None and accelerator.type == "spyre":
            return torch.spyre.synchronize(device)
        return synchronize(device)

    torch.accelerator.synchronize = synchronize_
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "reset_peak_memory_stats", "memory_stats"):
        original = getattr(torch.accelerator, name, None)
        if original is None:
            continue

        def patched(device_index=None, /, _original=original, _name=name):
            accelerator = torch.accelerator.current_accelerator()
            if accelerator is not None and accelerator.type == "spyre":
                return getattr(torch.spyre, _name)(device_index)
            return _original(device_index)

        setattr(torch.accelerator, name, functools.wraps(original)(patched))


# Whether this thread moves a scripted module.
_scripted = threading.local()


def _patch_data() -> None:
    """``p.data = ...`` between the host and the device, and so modules that keep their parameters when they move."""
    own, compatible = torch._C.TensorBase.data, torch._has_compatible_shallow_copy_type

    def crosses(tensor, value) -> bool:
        """Whether a tensor of the device takes the place of one elsewhere, or the other way round."""
        return (tensor.device.type == "spyre") != (value.device.type == "spyre")

    def plain(tensor) -> bool:
        return tensor.layout is torch.strided and not torch._is_functional_tensor(tensor) and not isinstance(
            tensor, torch._subclasses.FakeTensor
        )

    def set_data(self, value):
        if not isinstance(value, torch.Tensor) or not crosses(self, value) or not (plain(self) and plain(value)):
            return own.__set__(self, value)
        if self.grad_fn is not None:
            raise RuntimeError(
                f"the data of a tensor that was computed with gradients cannot move from {self.device} to {value.device}: "
                "move the leaf that it was computed from, or detach it"
            )
        # PyTorch replaces the storage of a tensor by one of the same kind of device alone. What a tensor is made of can
        # be exchanged for any other, and the Python object stays: ties and optimizers keep it.
        with torch._C.DisableTorchFunctionSubclass():
            kept = {name: getattr(self, name) for name in ("requires_grad", "_backward_hooks", "_post_accumulate_grad_hooks")}
            grad = self.grad
            torch._C._swap_tensor_impl(self, value.detach())
            for name, state in kept.items():
                setattr(self, name, state)
            if grad is not None:
                # A gradient is where its tensor is.
                grad.data = grad.detach().to(self.device)
                self.grad = grad

    # PyTorch's compiler knows the function by these names of arguments.
    def has_compatible_shallow_copy_type(input, from_):
        if input.device.type == "spyre" or from_.device.type == "spyre":
            return plain(input) and plain(from_) and not getattr(_scripted, "moves", False)
        return compatible(input, from_)

    script = torch.jit.RecursiveScriptModule
    apply = script._apply

    def _apply(self, fn, recurse=True):
        # A scripted module holds what a parameter is made of, and not the Python object: it gets a new one.
        before, _scripted.moves = getattr(_scripted, "moves", False), True
        try:
            return apply(self, fn, recurse)
        finally:
            _scripted.moves = before

    script._apply = _apply
    torch.Tensor.data = property(own.__get__, set_data, doc=own.__doc__)
    torch._has_compatible_shallow_copy_type = has_compatible_shallow_copy_type


def _patch_linear() -> None:
    apply = torch.nn.Linear._apply

    def _apply(self, fn, recurse=True):
        before = self.weight.device.type
        module = apply(self, fn, recurse)
        weight = self.weight
        if torch.nn.parameter.is_lazy(weight):
            return module
        moved = before not in ("spyre", "meta") and weight.device.type == "spyre"
        if moved and type(weight) is torch.nn.Parameter and weight.dim() == 2 and min(weight.shape) > 1:
            # A product reads the weight with its sticks along the outputs: they lie so from the start,
            # and not moved at every call.
            layout = _native.tensor_layout(weight)
            if layout is not None and layout.host_size == list(weight.shape):
                weight.data = _native.to_layout(weight.detach(), layout.restickify(0))
        return module

    torch.nn.Linear._apply = _apply


def _patch_pinning() -> None:
    pin, pinned = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def ours(tensor) -> bool:
        accelerator = torch.accelerator.current_accelerator()
        return tensor.device.type == "cpu" and accelerator is not None and accelerator.type == "spyre"

    @functools.wraps(pin)
    def pin_memory(self, *args, **kwargs):
        # The simulated card reads all of the host's memory alike.
        return self if ours(self) else pin(self, *args, **kwargs)

    @functools.wraps(pinned)
    def is_pinned(self, *args, **kwargs):
        return False if ours(self) else pinned(self, *args, **kwargs)

    torch.Tensor.pin_memory, torch.Tensor.is_pinned = pin_memory, is_pinned


def _patch_scaler() -> None:
    scaler = torch.amp.GradScaler
    begin = scaler._lazy_init_scale_growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev):
        # The reciprocal of the scale is taken in float64.
        begin(self, torch.device("cpu") if torch.device(dev).type == "spyre" else dev)

    scaler._lazy_init_scale_growth_tracker = _lazy_init_scale_growth_tracker


def install() -> None:
    """Applies all of them."""
    _patch_pinning()
    _patch_scaler()
    _patch_data()
    _patch_linear()
    _patch_layouts()
    _patch_storages()
    _patch_storage_class()
    _patch_processes()
    _patch_streams()
    _patch_accelerator()
