"""``torch.spyre``: the device module."""

from __future__ import annotations

import os

import torch

from .. import _native
from . import memory, profiling, random
from .dynamic import dynamic_sizes
from .exchange import collectives, reset_collectives
from .fallback import FallbackWarning, fallbacks, reset_fallbacks
from .layouts import DataFormats, SpyreTensorLayout, get_device_dtype, new_empty_with_layout, restickify, to_with_layout
from .placement import memory_space, place
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import Event, Stream, current_stream, default_stream, set_stream, stream

# PyTorch asks for it where it keeps the state of random numbers, as checkpoints of activations do.
_initialized = True
_downcast_warning = os.environ.get("TORCH_SPYRE_DOWNCAST_WARN", "1").lower() not in ("0", "false", "off")


def index_of(device=None) -> int:
    """The number of a card: of a device, a number, or the current one."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type != "spyre":
            raise ValueError(f"Expected a spyre device, but got: {device}")
        index = current_device() if device.index is None else device.index
    if not 0 <= index < device_count():
        raise RuntimeError(f"Device index {index} out of range [0, {device_count()})")
    return index


def is_available() -> bool:
    """Whether there is a card; the simulated one always is there."""
    return True


def is_initialized() -> bool:
    """Whether the device is ready; a simulated one always is."""
    return True


def init() -> None:
    """Does nothing: cards start when they are first used."""


# PyTorch calls these names on every accelerator, also where there is nothing to do.
def _lazy_init() -> None:
    pass


# PyTorch refuses CUDA in a forked process; the simulated card is memory of the process, which a fork copies.
def _is_in_bad_fork() -> bool:
    return False


def _is_compiled() -> bool:
    return True


def device_count() -> int:
    """The number of cards: ``ZELLIGE_DEVICES``, 2 by default, and those of them that ``SPYRE_VISIBLE_DEVICES``,
    ``SPYRE_DEVICES`` or ``AIU_WORLD_SIZE`` leave visible."""
    return _native.device_count()


def current_device() -> int:
    """The number of the card that ``"spyre"`` means in this thread."""
    return _native.current_device()


def set_device(device) -> None:
    """Makes ``"spyre"`` mean this card, in this thread."""
    _native.set_current_device(index_of(device))


class device:
    """``with torch.spyre.device(1): ...``"""

    def __init__(self, device):
        self.index = index_of(device)

    def __enter__(self):
        self.before = current_device()
        set_device(self.index)
        return self

    def __exit__(self, *_):
        set_device(self.before)


def _exchange_device(index: int) -> int:
    before = current_device()
    if index >= 0:
        set_device(index)
    return before


def _maybe_exchange_device(index: int) -> int:
    return _exchange_device(index)


def synchronize(device=None) -> None:
    """Waits for all streams of a card; raises what went wrong in them."""
    _native.synchronize(index_of(device))


def get_device_name(device=None) -> str:
    """What the card is."""
    info = _native.card_info(index_of(device))
    return f"simulated Spyre card ({info['name']}, {info['cores']} cores)"


def get_device_capability(device=None):
    """None: the simulated card has no generations."""
    return None


def get_device_properties(device=None) -> dict:
    """The card in figures, and what it did so far in simulated time."""
    return _native.card_info(index_of(device))


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes of ``torch.autocast("spyre")``."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors are computed with: they are, in the 16-bit floats of the card."""
    return True


def get_downcast_warning() -> bool:
    """Whether the first float32 or int64 tensor on its way to the device warns."""
    return _downcast_warning


def set_downcast_warning(enabled: bool) -> None:
    """Turns that warning on or off."""
    global _downcast_warning
    _downcast_warning = bool(enabled)


def last_report():
    """What ``torch.compile`` did last: programs, moves, latency, what ran eagerly, graph breaks."""
    from ..compile import last_report

    return last_report()


def chrome_trace(device=None) -> str:
    """What the card did, as a Chrome trace in simulated time: during the last ``torch.profiler.profile``
    that is over, or from the start on with ``ZELLIGE_TRACE=<events>`` in the environment."""
    index = index_of(device)
    # With the variable a card keeps its own events, which cover more than the last profile.
    if os.environ.get("ZELLIGE_TRACE", "").strip().strip("0"):
        return _native.trace(index)
    trace = profiling.recorded(index)
    if trace is None:
        raise RuntimeError(
            f"nothing was recorded on spyre:{index}: use it in a `with torch.profiler.profile():` first, or set "
            "ZELLIGE_TRACE=<events> before PyTorch is imported"
        )
    return trace


def export_chrome_trace(path, device=None) -> None:
    """Writes :func:`chrome_trace` to a file."""
    trace = chrome_trace(device)
    with open(path, "w", encoding="utf-8") as file:
        file.write(trace)

