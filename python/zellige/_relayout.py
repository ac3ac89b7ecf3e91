"""``zellige.relayout``: the engine's function, or an operator of PyTorch while PyTorch compiles."""

from __future__ import annotations

import sys
from typing import Any

from . import _native


def relayout(
    array: Any,
    src: Any = None,
    dst: Any = None,
    out: Any = None,
    *,
    fill: float | str | None = None,
    threads: int | None = None,
) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling() and isinstance(array, torch.Tensor):
        from . import _torch_op

        return _torch_op.relayout(array, src, dst, out, fill)
    return _native.relayout(array, src, dst, out, fill=fill, threads=threads)


relayout.__doc__ = _native.relayout.__doc__
relayout.__module__ = "zellige"
