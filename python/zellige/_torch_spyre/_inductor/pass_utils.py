"""What passes over Inductor's graphs ask: loops of an operation, coordinates of its tensors, layouts with other sticks.

Every layout comes from the engine (``SpyreTensorLayout``), every coordinate from ``views``; the rest reads Inductor's
records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import sympy
from torch._inductor.dependencies import MemoryDep
from torch._inductor.ir import FixedLayout, Pointwise, Reduction
from torch._inductor.virtualized import V

from zellige import LayoutError, SpyreTensorLayout

from .errors import Unsupported
from .ir import FixedTiledLayout
from .views import compute_coordinates, matching_dim

# Slices of loops by the steps of the loops: those of the result in what is written, the others in what is read first.
ItSpaceSplits = tuple[dict[sympy.Expr, int], dict[sympy.Expr, int]]


class SchedNodeArg(NamedTuple):
    """A tensor that an operation reads: how it steps through it, and the layouts that it may have."""

    dep: MemoryDep
    layout: FixedLayout
    layouts: list[SpyreTensorLayout]


def get_mem_deps(n) -> list[SchedNodeArg]:
    """The tensors that a node of the scheduler reads."""
    return get_mem_deps_from_rw(n.read_writes)


def get_mem_deps_from_rw(read_writes) -> list[SchedNodeArg]:
    """The tensors that are read, in their order, in the graph that is compiled."""
    found = []
    for dep in read_writes.reads:
        if not isinstance(dep, MemoryDep):
            continue
        buffer = V.graph.get_buffer(dep.name)
        layout, candidates = buffer.get_layout(), getattr(buffer, "layouts", None)
        if candidates is None and not isinstance(layout, FixedTiledLayout):
            raise RuntimeError(f"the layout of {dep.name} is a {type(layout).__name__}: a FixedTiledLayout is wanted, or candidates in `layouts`")
        found.append(SchedNodeArg(dep, layout, [layout.device_layout] if candidates is None else list(candidates)))
    return found


def op_read_writes(op):
    """What an operation reads and writes."""
    return op.get_read_writes()


def concretize_expr(expr) -> int:
    """A size as a number: where it has symbols, the one that the graph was traced with."""
    if isinstance(expr, int):
        return expr
    expr = sympy.sympify(expr)
    if expr.free_symbols:
        sizes = V.graph.sizevars
        return int((getattr(sizes, "optimization_hint", None) or sizes.size_hint)(expr))
    return int(expr)


def concretize_index(index: sympy.Expr, loop_vars) -> sympy.Expr:
    """An access with numbers for all symbols but the loops."""
    index = sympy.sympify(index)
    return index.subs({s: concretize_expr(s) for s in index.free_symbols - set(loop_vars)})


def host_coordinates(layout: FixedLayout, dep: MemoryDep, indirect_sizes=None) -> list[sympy.Expr]:
    """The coordinates of an access in the dimensions of a tensor as PyTorch sees it."""
    size, stride = [concretize_expr(n) for n in layout.size], [concretize_expr(n) for n in layout.stride]
    return compute_coordinates(size, stride, dep.ranges, _index(dep, indirect_sizes), indirect_sizes)


def device_coordinates(stl: SpyreTensorLayout, dep: MemoryDep, indirect_sizes=None) -> list[sympy.Expr]:
    """The coordinates of an access in the dimensions of a device layout, the stick last."""
    return compute_coordinates(stl.device_size, stl.stride_map, dep.ranges, _index(dep, indirect_sizes), indirect_sizes)


def try_device_coordinates(stl: SpyreTensorLayout, dep: MemoryDep, indirect_sizes=None) -> list[sympy.Expr] | None:
    """The same; None of an access that has no coordinates there."""
    try:
        return device_coordinates(stl, dep, indirect_sizes)
    except Unsupported:
        return None


def _index(dep, indirect_sizes):
    return concretize_index(dep.index, {*dep.ranges, *(indirect_sizes or ())})


def iter_var_id(stick_expr) -> int:
    """The number at the end of the loop's name in a coordinate: 2 of ``d2 % 64``; -1 of a coordinate without a loop."""
    symbols = sorted(sympy.sympify(stick_expr).free_symbols, key=str)
    return int(re.search(r"\d*$", str(symbols[0])).group() or -1) if symbols else -1


def iteration_space(n) -> dict[sympy.Symbol, sympy.Expr]:
    """The loops of a node of the scheduler with their ranges."""
    return _loops(n.node.data, n.read_writes)


def iteration_space_from_op(op) -> dict[sympy.Symbol, sympy.Expr]:
    """The loops of an operation before it is scheduled."""
    return _loops(op.data, op_read_writes(op))


def _loops(data, read_writes):
    # A reduction has more loops than its result.
    if isinstance(data, Pointwise):
        side = read_writes.writes
    elif isinstance(data, Reduction):
        side = read_writes.reads
    else:
        raise Unsupported(f"loops of a {type(data).__name__}: a Pointwise or a Reduction has some")
    return dict(next(iter(side)).ranges)


def splits_by_index_coeff(splits: Mapping[sympy.Symbol, int], write_index: sympy.Expr, read_index: sympy.Expr) -> ItSpaceSplits:
    """Slices of loops by the steps of the loops, which stay when loops are named anew. Loops that are not divided are left
    out."""
    divided = {loop: slices for loop, slices in splits.items() if slices > 1}
    written = {write_index.coeff(loop): slices for loop, slices in divided.items()}
    summed = {read_index.coeff(loop): slices for loop, slices in divided.items() if write_index.coeff(loop) == 0}
    return _without_zero(written), _without_zero(summed)


def _without_zero(found):
    return {step: slices for step, slices in found.items() if step != 0}


def apply_splits_from_index_coeff(coeff_splits: ItSpaceSplits, write_index: sympy.Expr, read_index: sympy.Expr, sched_it_space: Mapping[sympy.Symbol, sympy.Expr]) -> dict[sympy.Symbol, int]:
    """The slices of every loop, 1 where none are known. For loops whose steps differ,
    ``apply(splits_by_index_coeff(s, w, r), w, r, loops) == s``."""
    written, summed = coeff_splits
    found = {}
    for loop, extent in sched_it_space.items():
        step = write_index.coeff(loop)
        known = summed.get(read_index.coeff(loop), 1) if step == 0 else written.get(step, 1)
        found[loop] = 1 if sympy.sympify(extent) == 1 else known
    return found


def compute_restickify_target_layout(stl: SpyreTensorLayout, host_layout: FixedLayout, target_stick_expr, ic, idc) -> SpyreTensorLayout | None:
    """The layout with its sticks along the dimension of the tensor that ``target_stick_expr`` moves along; one element per
    stick where that is 0. ``ic`` and ``idc`` are the coordinates of the access in the tensor and in ``stl``. None where no
    dimension, or more than one, moves so."""
    target = sympy.sympify(target_stick_expr)
    size, stride = [concretize_expr(n) for n in host_layout.size], [concretize_expr(n) for n in host_layout.stride]
    try:
        if target == 0:
            return SpyreTensorLayout(size, stride, host_layout.dtype, [*range(len(size)), -1])
        to = matching_dim(ic, target)
        if to is None or matching_dim(ic, idc[-1]) is None:
            return None
        return stl.with_host(size, stride).restickify(to)
    except LayoutError:
        return None


def compute_restickify_needed(in_stl: SpyreTensorLayout, in_host: FixedLayout, in_dep: MemoryDep, out_stl: SpyreTensorLayout, out_dep: MemoryDep) -> tuple[bool, SpyreTensorLayout | None]:
    """Whether an operand must get other sticks for a result in ``out_stl``, and the layout that it needs then: None where it
    needs none, or where there is none. Operands and results without a loop along their sticks fit all others."""
    read, written = device_coordinates(in_stl, in_dep), device_coordinates(out_stl, out_dep)
    if not written or not read[-1].free_symbols or not written[-1].free_symbols or read[-1] == written[-1]:
        return False, None
    target = compute_restickify_target_layout(in_stl, in_host, written[-1], host_coordinates(in_host, in_dep), read)
    return True, target
