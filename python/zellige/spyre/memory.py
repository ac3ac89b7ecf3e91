"""``torch.spyre.memory``: how full a card is."""

from __future__ import annotations

from .. import _native


def _stats(device) -> dict:
    from .device import index_of

    return _native.memory_stats(index_of(device))


def memory_stats(device=None) -> dict:
    """Bytes of a card: allocated, peak, reserved, peak_reserved, free, capacity, largest_hole."""
    return _stats(device)


def memory_allocated(device=None) -> int:
    """Bytes that live tensors asked for."""
    return _stats(device)["allocated"]


def max_memory_allocated(device=None) -> int:
    """The most that was ever allocated, or since the last reset."""
    return _stats(device)["peak"]


def memory_reserved(device=None) -> int:
    """Bytes that live tensors take, in whole sticks."""
    return _stats(device)["reserved"]


def max_memory_reserved(device=None) -> int:
    """The most that was ever reserved, or since the last reset."""
    return _stats(device)["peak_reserved"]


def reset_peak_memory_stats(device=None) -> None:
    """Forgets the peaks."""
    from .device import index_of

    _native.reset_peak(index_of(device))


def mem_get_info(device=None) -> tuple[int, int]:
    """Free and total bytes."""
    stats = _stats(device)
    return stats["free"], stats["capacity"]


def empty_cache() -> None:
    """Does nothing: memory goes back with its last tensor."""
