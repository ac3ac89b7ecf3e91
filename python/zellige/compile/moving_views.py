"""Views that come at another offset in every call, such as the batches ``x[i : i + n]`` of a loop.

A program reads a view where it is, at an offset that is part of the program. One program for every batch would cost
milliseconds each, so a view that keeps moving is copied into a tensor of its own, and all calls share one program.
"""

from __future__ import annotations

import torch

from .. import _native
from ..spyre import dynamic

# Offsets of one view for which programs are made. A function that alternates between two buffers, or reads the heads of
# one projection, has as many; a loop over batches soon has more.
_MAX_OFFSETS = 4


class MovingViews:
    """The offsets at which each argument of a segment came so far."""

    def __init__(self, written):
        # Arguments that the segment writes: a copy would take the writes.
        self._written = frozenset(written)
        self._offsets: dict[tuple, set[int]] = {}

    def copy_moving(self, args) -> tuple[tuple, list[int]]:
        """The arguments with moving views copied, and the numbers of those that were."""
        copied = [i for i, arg in enumerate(args) if self._moves(i, arg)]
        if not copied:
            return args, copied
        return tuple(a.clone(memory_format=torch.contiguous_format) if i in copied else a for i, a in enumerate(args)), copied

    def _moves(self, number: int, arg) -> bool:
        if not isinstance(arg, torch.Tensor) or arg.device.type != "spyre" or arg.storage_offset() == 0 or arg.numel() == 0:
            return False
        if number in self._written or dynamic.reserved_tensor(arg) is not None:
            return False
        view = (number, arg.dtype, tuple(arg.shape), arg.stride(), _native.tensor_layout(arg))
        offsets = self._offsets.setdefault(view, set())
        if len(offsets) < _MAX_OFFSETS:
            offsets.add(arg.storage_offset())
        return arg.storage_offset() not in offsets
