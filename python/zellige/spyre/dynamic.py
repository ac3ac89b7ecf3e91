"""Tensors whose sizes change in place.

``x.to("spyre", max=N)`` and ``x.to("spyre", dynamic={dim: {"min": .., "max": .., "granularity": ..}})``
reserve memory for the largest sizes. The tensor shows the first part of every dimension, and `resize_`
shows more or less of it: storage, address, strides and device layout stay what they are. Elements that
stay keep their values, and elements that appear are zero.
"""

from __future__ import annotations

import torch

from .. import _native
from .layouts import _dense, empty_with_layout, on_card
from .ranges import Range, integer, ranges


class Reservation:
    """What a storage was reserved for. It hangs on the storage, so all its views know it, and it lives as
    long as the memory does."""

    # Whether there ever was one: compiled programs ask for every tensor of every call.
    made = False

    def __init__(self, full: torch.Tensor, ranges: dict[int, Range]):
        self.size, self.stride = list(full.shape), full.stride()
        self.layout = _native.tensor_layout(full)
        self.ranges = ranges
        Reservation.made = True
        # What was never shown still holds the zeros of fresh memory.
        self.shown = [0 if d in ranges else n for d, n in enumerate(self.size)]

    def is_shown_by(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of this storage is the reserved one at some size, and not another view."""
        if tensor.storage_offset() != 0 or tensor.stride() != self.stride:
            return False
        return all(d in self.ranges or n == self.size[d] for d, n in enumerate(tensor.shape))

    def check(self, size: list[int], place: str) -> None:
        """Refuses sizes that the reservation does not cover."""
        if len(size) != len(self.size):
            raise RuntimeError(f"{place}: the tensor has {len(self.size)} dimensions and keeps them, but {len(size)} were given")
        for d, n in enumerate(size):
            if d in self.ranges:
                self.ranges[d].check(n, f"{place}: dimension {d}")
            elif n != self.size[d]:
                can = ", ".join(f"dimension {d} ({r})" for d, r in self.ranges.items())
                raise RuntimeError(f"{place}: dimension {d} is {self.size[d]} and was not reserved for {n}; what can change is {can}")

    def show(self, tensor: torch.Tensor, size: list[int]) -> None:
        """Changes the sizes of the tensor, which `check` accepted."""
        before = list(tensor.shape)
        # Below autograd and without an operator for it, this is how sizes change in place.
        torch.ops.aten.as_strided_(tensor, size, self.stride, 0)
        for d in self.ranges:
            # Over the whole new extent of the others, which may have been larger at another time.
            end = min(size[d], self.shown[d])
            if end > before[d]:
                _native.fill(tensor.narrow(d, before[d], end - before[d]), 0.0)
        self.shown = [max(a, b) for a, b in zip(self.shown, size)]


def reservation(tensor: torch.Tensor) -> Reservation | None:
    """The reservation of a tensor's storage."""
    if not Reservation.made or tensor.device.type != "spyre" or isinstance(tensor, torch._subclasses.FakeTensor):
        return None
    return getattr(tensor.untyped_storage(), "_reservation", None)


def dynamic_sizes(tensor: torch.Tensor) -> dict[int, dict[str, int]] | None:
    """The sizes that `resize_` can give a tensor in place, in the form that ``dynamic=`` takes; None
    for a tensor without a reservation, and for views of one: all but those of its first elements, which
    are the tensor at another size."""
    found = reservation(tensor)
    if found is None or not found.is_shown_by(tensor):
        return None
    return {d: r._asdict() for d, r in found.ranges.items()}


def reserved_tensor(tensor: torch.Tensor) -> torch.Tensor | None:
    """All that was reserved for a tensor, as one of the largest size; None where there is no reservation,
    where its strides are not row-major, or where the tensor shows nothing of it."""
    found = reservation(tensor)
    if found is None or not found.is_shown_by(tensor) or not tensor.numel():
        return None
    full = tensor.detach().as_strided(found.size, found.stride, 0)
    return full if full.is_contiguous() else None


def resize(tensor: torch.Tensor, size, memory_format=None) -> bool:
    """Resizes a tensor inside of its reservation; False where it has none."""
    found = reservation(tensor)
    if found is None:
        return False
    size = list(size)
    if size == list(tensor.shape):
        return True
    place = f"resize_ to {size}"
    if not found.is_shown_by(tensor):
        raise RuntimeError(
            f"{place}: this is a view of size {list(tensor.shape)}, strides {list(tensor.stride())} and offset "
            f"{tensor.storage_offset()}, in memory that is reserved for a tensor of size up to {found.size}: resize "
            "that tensor, or a clone() of the view"
        )
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        raise RuntimeError(f"{place}: the reservation keeps its strides {list(found.stride)}, and cannot become {memory_format}")
    found.check(size, place)
    found.show(tensor, size)
    return True


def _full_strides(like: torch.Tensor | None, size: list[int]) -> list[int] | None:
    """Strides of the largest tensor in the order of the given one's; row-major ones where it has gaps."""
    if like is None or like.is_contiguous() or not _dense(like):
        return None
    stride, step = [0] * len(size), 1
    for d in sorted(range(len(size)), key=lambda d: (like.stride(d), -d)):
        stride[d] = step
        step *= max(size[d], 1)
    return stride


class _Request:
    """A tensor with a reservation, before there is memory for it."""

    def __init__(self, size, dtype, *, max=None, dynamic=None, layout=None, like=None):
        self.size, self.dtype, self.layout, self.like = [integer(n, "a size") for n in size], dtype, layout, like
        if layout is not None and not isinstance(layout, _native.SpyreTensorLayout):
            raise TypeError(f"device_layout is {layout!r}: a SpyreTensorLayout is wanted")
        if max is not None and dynamic is not None:
            raise ValueError(f"max={max!r} and dynamic={dynamic!r} both say what to reserve: give one of them")
        if dynamic is not None:
            self.ranges = ranges(self.size, dynamic, "dynamic")
        elif isinstance(max, dict):
            self.ranges = ranges(self.size, {d: {"max": n} for d, n in max.items()}, "max")
        else:
            max = integer(max, "max, a size or a dict from dimensions to sizes,")
            self.ranges = ranges(self.size, {self._first(max): {"max": max}}, "max")
        self.full = self._full(self.ranges)
        self._check_layout()
        self._check_sticks()

    def _full(self, ranges: dict[int, Range]) -> list[int]:
        return [ranges[d].max if d in ranges else n for d, n in enumerate(self.size)]

    def _sticks(self, full: list[int]) -> set[int]:
        layout = self.layout
        if layout is None:
            layout = _native.usual_layout(full, self.dtype, _full_strides(self.like, full))
        return set(layout.stick_dims(full))

    def _first(self, max: int) -> int:
        """The dimension that a bare number is for: the first one that is not along the sticks."""
        refused = not 0 <= max < 1 << 63
        for d in range(len(self.size)):
            full = self._full({d: Range(0, max, 1)})
            if refused or self._misfit(full) is None and d not in self._sticks(full):
                return d
        if self.layout is not None and len(self.size) > 1:
            # The error about the layout names the first dimension.
            return 0
        raise ValueError(
            f"max={max}: a tensor of size {self.size} has no dimension beside the one along the sticks, which cannot be "
            "dynamic; unsqueeze it, or give a device_layout with other sticks"
        )

    def _misfit(self, full: list[int]) -> str | None:
        """Why the given device layout does not take the largest size."""
        if self.layout is None or self.layout.host_size == full:
            return None
        if self.layout.host_size is not None:
            return f"it is for size {self.layout.host_size}"
        try:
            self.layout.layout(full)
            return None
        except _native.LayoutError as error:
            return str(error).splitlines()[0].partition("]: ")[2] or str(error)

    def _check_layout(self) -> None:
        reason = self._misfit(self.full)
        if reason is not None:
            raise ValueError(
                f"device_layout does not take the largest size {self.full} of the reservation: {reason}; "
                f"SpyreTensorLayout({self.full}, {self.dtype}) does"
            )

    def _check_sticks(self) -> None:
        sticks = self._sticks(self.full)
        for d in self.ranges:
            if d in sticks:
                free = [str(e) for e in range(len(self.size)) if e not in sticks]
                rest = f"these can: {', '.join(free)}" if free else "there is no other"
                raise ValueError(
                    f"dimension {d} of size {self.full} is along the sticks, and the stick dimension cannot be dynamic; {rest}"
                )

    def make(self, device) -> torch.Tensor:
        """A tensor of zeros that shows the present size of the largest one."""
        device = on_card(device, "a reservation of sizes")
        stride = _full_strides(self.like, self.full)
        if self.layout is None:
            index = torch.spyre.current_device() if device.index is None else device.index
            made = _native.empty(self.full, self.dtype, index, stride)
        else:
            made = empty_with_layout(self.full, self.layout, dtype=self.dtype, device=device, stride=stride)
        return _reserve(made, self.ranges, self.size)


def _reserve(full: torch.Tensor, ranges: dict[int, Range], size) -> torch.Tensor:
    """Makes a fresh tensor of the largest size one that shows another."""
    reserved = Reservation(full, ranges)
    full.untyped_storage()._reservation = reserved
    reserved.show(full, list(size))
    return full


def _outside_of_graphs() -> None:
    """Breaks a graph that is being traced: its tensors have no memory to reserve."""
    if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
        raise torch._subclasses.UnsupportedFakeTensorException("memory for dynamic sizes is reserved outside of graphs")


def copied(tensor: torch.Tensor) -> torch.Tensor | None:
    """A copy with a reservation of its own, in the same layout; None for a tensor without a reservation."""
    found = reservation(tensor)
    if found is None or not found.is_shown_by(tensor):
        return None
    full = empty_with_layout(found.size, found.layout, dtype=tensor.dtype, device=tensor.device, stride=found.stride)
    return _reserve(full, found.ranges, tensor.shape).copy_(tensor.detach())


@torch._disable_dynamo
def empty_dynamic(size, *, max=None, dynamic=None, layout=None, dtype=None, device=None, requires_grad=False):
    """A tensor of zeros with a reservation."""
    _outside_of_graphs()
    dtype = torch.get_default_dtype() if dtype is None else dtype
    made = _Request(size, dtype, max=max, dynamic=dynamic, layout=layout).make(device)
    return made.requires_grad_(requires_grad) if requires_grad else made


@torch._disable_dynamo
def to_dynamic(tensor: torch.Tensor, *, max=None, dynamic=None, layout=None, device=None, dtype=None, copy=False):
    """The tensor on the device, with a reservation. One that has the same reservation already is given as
    it is, unless ``copy`` is true."""
    _outside_of_graphs()
    dtype = tensor.dtype if dtype is None else dtype
    request = _Request(tensor.shape, dtype, max=max, dynamic=dynamic, layout=layout, like=tensor)
    found = reservation(tensor)
    here = device is None or torch.device(device) in (tensor.device, torch.device("spyre"))
    if found is not None and here and not copy and dtype == tensor.dtype and found.is_shown_by(tensor):
        if found.ranges == request.ranges and layout in (None, found.layout):
            return tensor
    made = request.make(tensor.device if here and tensor.device.type == "spyre" else device)
    made.copy_(tensor.detach())
    return made
