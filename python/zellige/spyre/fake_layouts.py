"""Layouts of fake tensors, which represent tensors while a graph is traced and have no memory.

As on the card, a layout belongs to a storage and so to all views of it: it is an attribute of the fake storage. A fake
tensor gets the layout of the tensor that it stands for; results of operators that take a layout get that one. The
layouts of other results are the choice of the kernels, and are not known before they run.
"""

from __future__ import annotations

import contextlib
import functools
from typing import NamedTuple

import torch

from .. import _native

_NAME = "_spyre_layout"


class TracedLayout(NamedTuple):
    """The layout of a fake storage."""

    layout: object
    # The fake storage of whose layout it is a function; itself for that of a tensor from outside of the graph, and None
    # for a layout that the program names.
    follows: torch.UntypedStorage | None


def set_layout(tensor: torch.Tensor, layout, follows: torch.UntypedStorage | None = None) -> None:
    """Gives a fake tensor its layout."""
    setattr(tensor.untyped_storage(), _NAME, TracedLayout(layout, follows))


def find_layout(tensor: torch.Tensor) -> TracedLayout | None:
    """The layout of a fake tensor, where it is known."""
    return getattr(tensor.untyped_storage(), _NAME, None)


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether a tensor represents another while a graph is traced."""
    return isinstance(tensor, torch._subclasses.FakeTensor)


def bind_layout(layout, size):
    """The layout of a tensor of that size, as the card binds it; None where a size is a symbol."""
    if not all(isinstance(n, int) for n in size):
        return None
    return layout if layout.host_size == list(size) else layout.with_host(list(size))


def from_real_tensor(original):
    """``FakeTensorConverter.from_real_tensor``, whose result has the layout of the tensor."""

    @functools.wraps(original)
    def convert(self, fake_mode, t, *args, **kwargs):
        fake = original(self, fake_mode, t, *args, **kwargs)
        if t.device.type == "spyre" and type(t) in (torch.Tensor, torch.nn.Parameter) and find_layout(fake) is None:
            # A tensor whose storage was freed, as that of a sharded parameter, has none.
            with contextlib.suppress(_native.DeviceError):
                set_layout(fake, t.device_tensor_layout(), fake.untyped_storage())
        return fake

    return convert
