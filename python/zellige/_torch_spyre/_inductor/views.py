"""Accesses to tensors as coordinates: which element each iteration of a loop nest reads or writes.

An access is an offset in memory, written as an expression in loop variables, such as ``4096*p0 + p1``. Its coordinates are one
expression per dimension. The engine decomposes the offset (``crates/stick/src/access.rs``); this module only converts between
sympy's expressions and the terms of the engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from zellige import LayoutError, _native

from .errors import Unsupported


def convert_modular_indexing(expr: sympy.Expr) -> sympy.Expr:
    """Rewrites Inductor's ``ModularIndexing(x, d, n)`` as ``(x // d) % n``."""

    def plain(base, divisor, modulus):
        return sympy.Mod(base if divisor == 1 else FloorDiv(base, divisor), modulus)

    return sympy.sympify(expr).replace(ModularIndexing, plain)


def compute_coordinates(
    size: Sequence[int],
    stride: Sequence[int],
    var_ranges: Mapping[sympy.Symbol, sympy.Expr],
    index: sympy.Expr,
    indirect_sizes: Mapping[sympy.Symbol, int] | None = None,
) -> list[sympy.Expr]:
    """The coordinates of an access in a tensor of ``size`` and ``stride``, on the host or on the device.

    Law: for all values of the loops, the sum of the coordinates times the strides is ``index``. Dimensions of size 1, and
    dimensions with a stride of 0 or less, have the coordinate 0.

    ``var_ranges`` has the number of values of each loop variable. Other symbols are ignored by default; with
    ``indirect_sizes``, which has the numbers of their values, they are treated like loop variables.

    Raises ``Unsupported`` where a loop runs backwards, a step is not a whole number of elements, or ``index`` is not a sum of
    multiples of the strides.
    """
    atoms, offset = _terms(convert_modular_indexing(index), var_ranges, indirect_sizes)
    loops = [(count, step) for _, count, step in atoms]
    try:
        found = _native.box_access([int(n) for n in size], [int(n) for n in stride], loops, offset)
    except LayoutError as error:
        named = str(error)
        for k, (atom, _, _) in enumerate(atoms):
            named = named.replace(f"p{k} ", f"{atom} ")
        raise Unsupported(f"the access {index}: {named}") from None
    return [
        sympy.Integer(constant) + sum((_written(atoms[loop][0], *term) for loop, *term in terms), sympy.S.Zero)
        for terms, constant in found
    ]


def _written(atom, multiplier, divisor, modulus):
    reduced = atom if modulus is None else sympy.Mod(atom, modulus)
    return multiplier * (reduced if divisor == 1 else reduced // divisor)


def _terms(index, ranges, indirect_sizes):
    """Splits an index into a list of ``(atom, number of values, step)`` and a constant. An atom is a loop variable, or a quotient
    or remainder of one."""
    atoms, offset = [], 0
    terms = (t for part in sympy.Add.make_args(index) for t in sympy.Add.make_args(sympy.expand_mul(part, deep=False)))
    for term in terms:
        step, atom = term.as_coeff_Mul()
        if not step.is_Integer:
            raise Unsupported(f"the access {index} steps by {step}, which is not a whole number of elements")
        if atom == 1:
            offset += int(step)
            continue
        count = _count(atom, ranges, indirect_sizes)
        if count is None:
            continue
        if step < 0:
            raise Unsupported(f"the access {index} runs backwards along {atom}: device coordinates only ascend")
        if count > 1:
            atoms.append((atom, count, int(step)))
    # Sorted, so that the terms of a sum are always written in the same order; its value does not depend on the order.
    return sorted(atoms, key=lambda a: (-a[2], str(a[0]))), offset


def _count(expr, ranges, indirect_sizes) -> int | None:
    """A ``count`` such that the values of an expression are in ``0..count``; None where it has symbols that are ignored."""
    if expr.is_Symbol:
        if expr in ranges:
            return _number(ranges[expr])
        if indirect_sizes is None:
            return None
        if expr not in indirect_sizes:
            known = ", ".join(map(str, [*ranges, *indirect_sizes])) or "none"
            raise Unsupported(f"{expr} has no range; the symbols with a range: {known}")
        return _number(indirect_sizes[expr])
    if expr.is_Integer and expr >= 0:
        return int(expr) + 1
    if isinstance(expr, sympy.Mod) and expr.args[1].is_Integer:
        inner = _count(expr.args[0], ranges, indirect_sizes)
        return None if inner is None else min(inner, int(expr.args[1]))
    if isinstance(expr, FloorDiv) and expr.args[1].is_Integer:
        inner = _count(expr.args[0], ranges, indirect_sizes)
        return None if inner is None else (inner - 1) // int(expr.args[1]) + 1
    if isinstance(expr, sympy.floor):
        numerator, divisor = sympy.fraction(sympy.together(expr.args[0]))
        if divisor.is_Integer:
            inner = _count(numerator, ranges, indirect_sizes)
            return None if inner is None else (inner - 1) // int(divisor) + 1
    if expr.is_Add or expr.is_Mul:
        counts = [_count(part, ranges, indirect_sizes) for part in expr.args]
        if None in counts:
            return None
        tops = [count - 1 for count in counts]
        return (sum(tops) if expr.is_Add else math.prod(tops)) + 1
    raise Unsupported(f"{expr} in an access; accepted are sums of loops, and of their quotients and remainders by integers")


def _number(value) -> int:
    if isinstance(value, (int, sympy.Integer)):
        return int(value)
    from .pass_utils import concretize_expr

    return concretize_expr(value)


def matching_dim(coords: Sequence[sympy.Expr], expr: sympy.Expr) -> int | None:
    """The dimension that an expression of one loop variable indexes: the only one whose coordinate takes all values of the
    expression. None if no dimension or several do, and for an expression of no or of several loop variables."""
    expr = sympy.sympify(expr)
    if len(expr.free_symbols) != 1:
        return None
    (loop,) = expr.free_symbols
    found = [d for d, coordinate in enumerate(coords) if _takes_values_of(sympy.sympify(coordinate), expr, loop)]
    return found[0] if len(found) == 1 else None


def _takes_values_of(coordinate, expr, loop) -> bool:
    """Whether a coordinate takes all values of an expression of the same loop variable ``p``. Their constants must be equal; apart
    from them, the coordinate must be ``p``, or ``p % n`` where the expression is ``p % m`` with ``m <= n``."""
    if coordinate.free_symbols != {loop} or coordinate.subs(loop, 0) != expr.subs(loop, 0):
        return False
    coordinate, expr = coordinate - coordinate.subs(loop, 0), expr - expr.subs(loop, 0)
    if coordinate == loop:
        return True
    remainders = all(isinstance(e, sympy.Mod) and e.args[0] == loop for e in (coordinate, expr))
    return remainders and bool(sympy.Le(expr.args[1], coordinate.args[1]))


def tiling_expr_to_device_expr(device_size: Sequence[int], stride_map: Sequence[int], index: sympy.Expr) -> sympy.Expr:
    """The device offset, in elements, for a host offset ``index``. ``index`` is linear in its symbols, and so is the
    result: each symbol is multiplied by the device distance of one step. Raises ``Unsupported`` as
    :func:`compute_coordinates` does for a step."""
    index, moved = sympy.sympify(index), sympy.S.Zero
    inside = [math.prod(int(n) for n in device_size[d + 1 :]) for d in range(len(device_size))]
    for loop in sorted(index.free_symbols, key=str):
        # With a loop of two values, the coordinates at the value 1 are those of one step.
        step = index.coeff(loop)
        coordinates = compute_coordinates(device_size, stride_map, {loop: 2}, step * loop)
        moved += loop * sum(c.subs(loop, 1) * by for c, by in zip(coordinates, inside))
    return moved
