"""Settings that hold for what is compiled from then on, where ``options`` of the backend say nothing."""

from __future__ import annotations

# Cores of a program; None for all that the card has.
cores: int | None = None


def with_settings(options) -> dict:
    """The options of a compilation, with the settings for those that are not given."""
    options = dict(options or {})
    # Hardware of another description has its own number of cores.
    if cores is not None and "hardware" not in options:
        options.setdefault("cores", cores)
    return options
