"""What the device changes of PyTorch, and of two libraries on top of it: applied and undone together.

``table.py`` lists every change with the reason why no hook of PyTorch serves. A change only tells a tensor of the
device from others: for tensors elsewhere PyTorch's own function runs.
"""

from __future__ import annotations

import threading

from .changes import Attribute, Registration
from .table import AT_FIRST_GRAPH, AT_IMPORT, AT_SECOND_CARD, TABLE, Patch

__all__ = ["AT_FIRST_GRAPH", "AT_IMPORT", "AT_SECOND_CARD", "Attribute", "Patch", "Registration", "TABLE", "applied", "apply", "happened", "undo"]

_lock = threading.RLock()
# What was applied, in order, with the functions that undo it.
_applied: dict[str, object] = {}
# The moments that have come, and whether changes are wanted at all.
_moments: set[str] = set()
_wanted = False


def _apply(moment: str) -> None:
    for patch in TABLE:
        if patch.when == moment and patch.what not in _applied:
            try:
                _applied[patch.what] = patch.change.apply()
            except (AttributeError, KeyError):
                # A version of a library that chooses otherwise does so without us; PyTorch's version is known.
                if moment.startswith(("accelerate", "transformers")):
                    continue
                raise


def happened(moment: str) -> None:
    """Says that a moment of the table has come: its changes are applied, now or with the others."""
    with _lock:
        if moment in _moments:
            return
        _moments.add(moment)
        if _wanted:
            _apply(moment)


def apply() -> None:
    """Applies all changes whose moment has come, and others when it comes; more than once does nothing."""
    global _wanted
    with _lock:
        _wanted = True
        _moments.add(AT_IMPORT)
        # In the order of the table: changes of functions come before the lists that name those functions.
        for moment in dict.fromkeys(patch.when for patch in TABLE):
            if moment in _moments:
                _apply(moment)


def undo() -> None:
    """Gives PyTorch, and the libraries, everything back. The device stays registered, and its operators work: what
    the table is for does not, until :func:`apply` is called again."""
    global _wanted
    with _lock:
        _wanted = False
        while _applied:
            _applied.popitem()[1]()


def applied() -> list[str]:
    """The names of the changes that hold now."""
    with _lock:
        return list(_applied)
