"""``torch.accelerator`` where the current accelerator is the card, and host memory that is asked to be pinned for it."""

from __future__ import annotations

import functools

import torch

from ... import _native


def is_current() -> bool:
    """Whether the card is PyTorch's current accelerator."""
    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and accelerator.type == "spyre"


def _or_card(on_card):
    """What replaces a function of PyTorch's C++ module: the given one for the card, its own for other accelerators."""

    def make(original):
        @functools.wraps(original)
        def function(*args):
            return on_card(*args) if is_current() else original(*args)

        return function

    return make


def _stats(index: int) -> dict:
    """The memory of a card under PyTorch's names, and under the device's own."""
    stats = torch.spyre.memory_stats(index)
    used = {"current": stats["allocated"], "peak": stats["peak"]}
    reserved = {"current": stats["reserved"], "peak": stats["peak_reserved"]}
    return {**stats, "allocated_bytes": {"all": used}, "reserved_bytes": {"all": reserved}}


set_device_index = _or_card(lambda index: torch.spyre.set_device(index))
synchronize = _or_card(lambda index: torch.spyre.synchronize(index))
is_allocator_initialized = _or_card(lambda: True)
device_stats = _or_card(_stats)
memory_info = _or_card(lambda index: torch.spyre.mem_get_info(index))
reset_peak_stats = _or_card(lambda index: _native.reset_peak(index))
reset_accumulated_stats = _or_card(lambda index: torch.spyre.reset_accumulated_memory_stats(index))
empty_cache = _or_card(lambda: torch.spyre.memory.empty_cache())


def pin_memory():
    """Registers a kernel for pinning memory of the host: the simulated card reads all of it alike."""
    own = torch.library.get_kernel("aten::_pin_memory", "CPU")

    def pinned(keys, self, device=None):
        return self if is_current() else own.call_boxed(keys, self, device)

    library = torch.library.Library("aten", "IMPL")
    library.impl("_pin_memory", pinned, "CPU", with_keyset=True)
    return library._destroy
