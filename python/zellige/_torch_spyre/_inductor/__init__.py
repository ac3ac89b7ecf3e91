"""Names of the original's compiler."""

import torch._inductor.codecache  # noqa: F401 - scripts use it after this import alone

from . import config, work_division_hint  # noqa: F401
from .propagate_hints import spyre_hint  # noqa: F401


def _autoload() -> None:
    """What the original registers its compiler by; it is there already."""
