"""Functions on PyTorch's dispatcher, for operators of its own."""

from __future__ import annotations

import functools

import torch


_registered: dict[str, set[str]] = {}


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
        _registered.setdefault(name, set()).add(key)


def registered() -> list[str]:
    """Every operator that has a kernel of the device."""
    return [name for name, keys in _registered.items() if "PrivateUse1" in keys]


def without_autograd() -> list[str]:
    """Operators with a kernel of the device, but none for gradients, that PyTorch itself defines by others. A kernel
    takes the place of that definition, and of its gradient with it."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found = [name for name in registered() if "AutogradPrivateUse1" not in _registered[name]]
    return [name for name in found if has("aten::" + name, "CompositeImplicitAutograd")]


def operator(name: str):
    """The operator ``aten::name``, with the overload behind a dot."""
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")
