"""Registers Python functions with PyTorch's dispatcher, for operators of ATen."""

from __future__ import annotations

import functools

import torch


_registered: dict[str, set[str]] = {}


@functools.cache
def _library() -> torch.library.Library:
    # A library takes its kernels back when it is collected: this one lives as long as the process.
    return torch.library.Library("aten", "IMPL")


def register(name: str, function, *keys: str) -> None:
    """Registers a function as the kernel of ``aten::name`` under dispatch keys, the device's own by default.

    Straight to the registration: the checks of `Library.impl` are for names that are typed by hand.
    """
    for key in keys or ("PrivateUse1",):
        _library().m.impl("aten::" + name, key, function, False)
        _registered.setdefault(name, set()).add(key)


def registered() -> list[str]:
    """Every operator that has a kernel of the device."""
    return [name for name, keys in _registered.items() if "PrivateUse1" in keys]


def without_autograd() -> list[str]:
    """Composite operators of PyTorch that have a kernel of the device, but none for gradients: the kernel hides PyTorch's
    decomposition, and the gradient that comes with it."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found = [name for name in registered() if "AutogradPrivateUse1" not in _registered[name]]
    return [name for name in found if has("aten::" + name, "CompositeImplicitAutograd")]


def operator(name: str):
    """The operator ``aten::name``; the name has its overload after a dot."""
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")
