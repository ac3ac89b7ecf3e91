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
    """Bytes of live tensors, as requested."""
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


def reset_accumulated_memory_stats(device=None) -> None:
    """Checks the device, and has nothing more to do: no figure of :func:`memory_stats` adds up over time."""
    _stats(device)


def mem_get_info(device=None) -> tuple[int, int]:
    """Free and total bytes."""
    stats = _stats(device)
    return stats["free"], stats["capacity"]


def empty_cache(device=None) -> None:
    """Does nothing, because memory is freed with its last tensor."""


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """The figures of :func:`memory_stats` as a table; ``abbreviated`` leaves out the peaks."""
    from .device import index_of

    stats, rows = _stats(device), ["allocated", "reserved", "free", "largest_hole", "capacity"]
    if not abbreviated:
        rows[1:1], rows[3:3] = ["peak"], ["peak_reserved"]
    lines = [f"memory of spyre:{index_of(device)}"]
    lines += [f"  {name.replace('_', ' '):<14} {stats[name]:>16,} bytes" for name in rows]
    return "\n".join(lines)


def memory_snapshot(device=None) -> list[dict]:
    """One entry for each card, or for the one that is given, with the keys of a segment of ``torch.cuda.memory_snapshot``
    that a card without a cache has."""
    from .device import device_count, index_of

    cards = range(device_count()) if device is None else [index_of(device)]
    stats = [(card, _native.memory_stats(card)) for card in cards]
    return [
        {"device": card, "total_size": s["capacity"], "allocated_size": s["allocated"], "active_size": s["reserved"], "free_size": s["free"]}
        for card, s in stats
    ]
