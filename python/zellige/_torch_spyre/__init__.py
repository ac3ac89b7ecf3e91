"""The names of torch-spyre, on Zellige's simulated card.

Python knows this package as ``torch_spyre`` where the real one is not installed: see ``zellige_torch_spyre.py``.
"""

import zellige.spyre as _spyre

_spyre.register()

from zellige import DataFormats, ElementArrangement, SpyreTensorLayout  # noqa: E402,F401
from zellige.spyre import FallbackWarning, memory_space, new_empty_with_layout, place, restickify, to_with_layout  # noqa: E402,F401

from . import _C  # noqa: E402,F401 - scripts say torch_spyre._C after a plain import

# What the documents call the layout that a tensor of a device has.
DeviceTensorLayout = SpyreTensorLayout
# Bytes of the unit in which the card moves data.
BYTES_IN_STICK = _C.BYTES_IN_STICK


def __getattr__(name: str):
    # It is a class of Inductor's, which costs an import.
    if name == "FixedTiledLayout":
        from zellige.compile import FixedTiledLayout

        return FixedTiledLayout
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _autoload() -> None:
    """What the original registers by; the device is there already."""


def make_spyre_module():
    """The device module."""
    import torch

    return torch.spyre
