"""Names of the original's compiler."""

from .propagate_hints import spyre_hint  # noqa: F401
