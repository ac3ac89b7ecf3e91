"""Hints: into how many slices loops are cut, where the user knows better than the compiler.

``with zellige.compile.hint(split={"M": 8}): ...`` holds for the operators inside. A loop has its name:
``M``, ``N``, ``K`` and ``B`` of a product, ``c0``, ``c1``, ... of others, by the dimensions of the result.
:func:`declare` gives a size a name of its own, which then means the dimension of that size.
"""

from __future__ import annotations

import contextlib

import torch

_META = "zellige_split"
_PRODUCTS = frozenset(("matmul", "linear", "mm", "bmm", "addmm", "baddbmm"))
# Operations that only look at a tensor otherwise.
VIEWS = frozenset(("reshape", "permute", "transpose", "t", "expand", "slice", "select", "as_strided"))
_declared: dict[str, int] = {}


@contextlib.contextmanager
def hint(split: dict[str, int] | list[int]):
    """Asks for slices of loops in the graph that is traced inside: by name, or for all loops in their order, those of
    the result first and then the one that is summed over. A list is for operators with as many loops."""
    with torch.fx.traceback.annotate({_META: dict(split) if isinstance(split, dict) else [int(n) for n in split]}):
        yield


def declare(name: str, size: int) -> None:
    """Gives a size a name for :func:`hint`."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"the dimension {name!r} has a size of 1 or more, not {size!r}")
    _declared[name] = size


def declared(name: str) -> int:
    """The size of a name."""
    if name not in _declared:
        raise KeyError(f"the dimension {name!r} has no size: declare it first")
    return _declared[name]


def forget() -> None:
    """Forgets every name."""
    _declared.clear()


def split_of(node, op: str, shape_of) -> dict[str, int]:
    """The slices that hints request for loops of an operation."""
    asked = (node.meta.get("custom") or {}).get(_META)
    value = node.meta.get("val")
    if not asked or op in VIEWS or not isinstance(value, torch.Tensor):
        return {}
    loops = _product(node, shape_of) if op in _PRODUCTS else {f"c{d}": n for d, n in enumerate(shape_of(node))}
    if isinstance(asked, (list, tuple)):
        # The loops of a product in their order: batches, rows, columns, the sum.
        order = [n for n in ("B", "M", "N", "K") if n in loops] if op in _PRODUCTS else list(loops)
        return dict(zip(order, asked)) if len(order) == len(asked) else {}
    found = {}
    for name, slices in asked.items():
        if name not in loops and name in _declared:
            same = [loop for loop, size in loops.items() if size == _declared[name]]
            name = same[0] if len(same) == 1 else name
        if name in loops:
            found[name] = int(slices)
    return found


def _product(node, shape_of) -> dict[str, int]:
    """The loops of a product: rows, columns, what is summed over, batches."""
    tensors = [a for a in node.args if isinstance(a, torch.fx.Node) and isinstance(a.meta.get("val"), torch.Tensor)]
    shape, inner = shape_of(node), shape_of(tensors[0])
    loops = {"K": inner[-1], "N": shape[-1]}
    if len(shape) > 1:
        loops["M"] = shape[-2]
    if len(shape) > 2:
        loops["B"] = shape[-3]
    return loops
