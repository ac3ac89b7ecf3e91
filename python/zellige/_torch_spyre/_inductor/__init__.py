"""Names of the original's compiler."""

from . import config, work_division_hint  # noqa: F401
from .propagate_hints import spyre_hint  # noqa: F401


def _autoload() -> None:
    """What the original registers its compiler by; it is there already."""
