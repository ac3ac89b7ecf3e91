"""The device "spyre" of PyTorch: a simulated card.

``import torch`` registers it (:func:`zellige._autoload.autoload`); then ``x.to("spyre")`` puts a
tensor on the card, operators run on the card's kernels, and ``torch.spyre`` is the device module.
What the card has no kernel for runs on the CPU, visibly: see :func:`fallbacks`.
"""

import torch  # noqa: F401 - registers the device on its way

from ._register import is_registered, register
from .dynamic import dynamic_sizes
from .exchange import Collective, collectives, reset_collectives
from .fallback import FallbackWarning, fallbacks, reset_fallbacks
from .layouts import new_empty_with_layout, restickify, to_with_layout
from .placement import memory_space, place
from .patches import apply as patch
from .patches import undo as unpatch

__all__ = [
    "Collective",
    "FallbackWarning",
    "collectives",
    "dynamic_sizes",
    "fallbacks",
    "is_registered",
    "memory_space",
    "new_empty_with_layout",
    "patch",
    "place",
    "register",
    "reset_collectives",
    "reset_fallbacks",
    "restickify",
    "to_with_layout",
    "unpatch",
]
