"""Hints of the original's compiler."""

import contextlib

from zellige.compile.hints import hint

from . import config


@contextlib.contextmanager
def spyre_hint(**hints):
    """``work_div`` divides loops over cores, by name. Tiles are the compiler's own choice here: hints
    about them change nothing."""
    with hint({} if config.ignore_work_division_hints else hints.get("work_div") or {}):
        yield hints
