"""Slices of loops by their order."""

import contextlib

from zellige.compile.hints import hint

from . import config


@contextlib.contextmanager
def work_division_hint(splits):
    """``with work_division_hint([2, 1, 4]): x @ y`` asks for slices of rows, columns and the sum. It holds for
    operators with as many loops as there are numbers."""
    with contextlib.nullcontext() if config.ignore_work_division_hints else hint(splits):
        yield
