"""Layouts as Inductor names them: the host's side and the device's side of a buffer in one object.

``FixedTiledLayout`` is Inductor's ``FixedLayout`` (device, dtype, size, strides and offset of a tensor as PyTorch sees
it) with a ``device_layout``: how its elements lie in the sticks of the card.
"""

from __future__ import annotations

import math

import torch
from torch._inductor.ir import FixedLayout

from .. import SpyreTensorLayout

# What the documents call the layout that a tensor of any device has; here there is one device.
DeviceTensorLayout = SpyreTensorLayout
# Bytes of the unit in which the card moves data.
BYTES_IN_STICK = 128


class FixedTiledLayout(FixedLayout):
    """The layout of a buffer on the card.

    ``allocation`` is the address of a planned buffer: ``{"lx": address}`` in every scratchpad, ``{"pool": address}`` in
    the program's part of device memory; it is empty of a buffer that has a block of its own, such as an input.
    """

    def __init__(self, device, dtype, size, stride, device_layout, offset=0, allocation=None):
        if not isinstance(device_layout, SpyreTensorLayout):
            raise TypeError(f"device_layout is {device_layout!r}: a SpyreTensorLayout is wanted")
        super().__init__(torch.device(device), dtype, list(size), list(stride), offset)
        self.device_layout = device_layout
        self.allocation = dict(allocation or {})

    @property
    def memory_space(self) -> str:
        """The memory of the card that the buffer is in: ``"lx"``, the scratchpads, or ``"memory"``."""
        return "lx" if "lx" in self.allocation else "memory"

    @property
    def nbytes(self) -> int:
        """Bytes on the card, padding included."""
        return self.device_layout.nbytes

    def storage_size(self):
        """Elements of the buffer on the card, padding included; Inductor counts those of the host's strides."""
        return math.prod(self.device_layout.device_size)

    def __eq__(self, other):
        return (
            isinstance(other, FixedTiledLayout) and super().__eq__(other) and self.device_layout == other.device_layout
        )

    def __str__(self) -> str:
        offset = f", offset={self.offset}" if self.offset != 0 else ""
        return (
            f"{type(self).__name__}('{self.device}', {self.dtype}, size={self.size}, stride={self.stride}"
            f"{offset}, device_layout={self.device_layout})"
        )

    __repr__ = __str__


def buffers_of(program) -> dict[str, FixedTiledLayout]:
    """Every buffer of a program by its name: inputs, results, and copies in other layouts."""
    device = torch.device("spyre", program.card)
    found = {}
    for name, dtype, size, stride, offset, layout, (kind, address) in program.buffers():
        place = {} if address is None else {kind: address}
        found[name] = FixedTiledLayout(device, getattr(torch, dtype), size, stride, layout, offset, place)
    return found
