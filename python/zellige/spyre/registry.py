"""Functions on PyTorch's dispatcher, for operators of its own."""

from __future__ import annotations

import functools

import torch


@functools.cache
def _library() -> torch.library.Library:
    # What a library registers ends with it: this one stays.
    return torch.library.Library("aten", "IMPL")


def register(name: str, function, *keys: str) -> None:
    """Makes a function what ``aten::name`` calls under these keys, the device's own unless said.

    Straight to the registration: the checks of `Library.impl` are for names that are typed by hand.
    """
    for key in keys or ("PrivateUse1",):
        _library().m.impl("aten::" + name, key, function, False)
