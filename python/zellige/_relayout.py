"""``zellige.relayout``: the engine's function, or an operator of PyTorch while PyTorch compiles."""

from __future__ import annotations

import sys

from . import _native


def relayout(array, src=None, dst=None, out=None, *, fill=None, threads=None):
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling() and isinstance(array, torch.Tensor):
        from . import _torch_op

        return _torch_op.relayout(array, src, dst, out, fill)
    return _native.relayout(array, src, dst, out, fill=fill, threads=threads)


relayout.__doc__ = _native.relayout.__doc__
relayout.__module__ = "zellige"
