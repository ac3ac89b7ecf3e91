"""Garbage collection while a graph is compiled.

A compilation makes many objects that live as long as the program. They make Python look through everything that
tracing left behind, which takes longer than the compilation itself and frees nothing of it.
"""

from __future__ import annotations

import contextlib
import gc


@contextlib.contextmanager
def deferred_collection():
    """Defers automatic collections to the end of the block. Where the program has turned them off, they stay off."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
