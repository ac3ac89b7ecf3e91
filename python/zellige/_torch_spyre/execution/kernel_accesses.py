"""How the loops of an operation step through the tensors of a kernel.

A tensor has a dimension for every loop of its first access, and the device layout of its record. Every access is checked
against the engine: the coordinates that it computes for the layout are those of the record, or the kernel is refused.
"""

from __future__ import annotations

import dataclasses

import sympy
from torch.utils._sympy.functions import FloorDiv

from zellige import DataFormats, Layout, LayoutError, SpyreTensorLayout

from .._inductor.errors import Unsupported
from .._inductor.op_spec import TensorArg
from .._inductor.views import compute_coordinates

# The dtypes that kernels compute with, by the formats that they are stored in.
_DTYPES = {
    DataFormats.SEN169_FP16: "float16",
    DataFormats.IEEE_FP32: "float32",
    DataFormats.SEN143_FP8: "float8_e4m3fn",
    DataFormats.IEEE_INT32: "int32",
    DataFormats.IEEE_INT64: "int64",
}


@dataclasses.dataclass
class KernelTensor:
    """A tensor of the kernel: its value in the graph, its layout bound to its host, and whether it was written."""

    value: str
    dtype: str
    layout: SpyreTensorLayout
    written: bool = False


@dataclasses.dataclass(frozen=True)
class KernelAccess:
    """How the loops of an operation step through a tensor, in elements of its host."""

    tensor: KernelTensor
    steps: dict[sympy.Symbol, int]
    offset: int


def named_key(key) -> str:
    return f"argument {key[1]}" if key[0] == "argument" else f"the tensor {key[1]}"


def fixed_number(expr, what) -> int:
    expr = sympy.sympify(expr)
    if not expr.is_Integer:
        raise Unsupported(f"{what} is {expr}: a number is accepted")
    return int(expr)


def define_tensor(key, arg: TensorArg, coordinates, ranges) -> KernelTensor:
    """A tensor with a dimension for every loop of its first access, row-major in their order."""
    dtype = _DTYPES.get(arg.device_dtype)
    if dtype is None:
        accepted = ", ".join(f.name for f in _DTYPES)
        raise Unsupported(f"{named_key(key)} is stored as {arg.device_dtype.name}: accepted are {accepted}")
    own = [v for v in ranges if ranges[v] > 1 and any(v in c.free_symbols for c in coordinates)]
    size = {v: ranges[v] for v in own}
    for dim, c in enumerate(coordinates[:-1]):
        # A loop over a part of a dimension: the tensor has the rest too.
        if len(c.free_symbols) == 1 and (c - c.subs(dict.fromkeys(c.free_symbols, 0))).is_Symbol:
            (v,) = c.free_symbols
            if v in size:
                size[v] = max(size[v], int(arg.device_size[dim]))
    extents = [size[v] for v in own]
    stride = _row_major(extents)
    step = dict(zip(own, stride))
    moves = [[by * step[v] for v, m, by in _terms(key, c, ranges) if m == 1] for c in coordinates]
    layout_map = [min(found) if found else -1 for found in moves]
    try:
        layout = SpyreTensorLayout(list(arg.device_size), layout_map, arg.device_dtype, arg.element_arrangement)
        layout = layout.with_host(extents, stride)
    except LayoutError as error:
        raise Unsupported(f"{named_key(key)}: {error}") from None
    return KernelTensor(f"arg{key[1]}" if key[0] == "argument" else "", dtype, layout)


def _row_major(size) -> list[int]:
    """The strides of a row-major tensor: where the engine places the unit steps."""
    whole = Layout.strided(size) if size else None
    return [whole.apply(*(int(e == d) for e in range(len(size))))[0]["m"] if n > 1 else 1 for d, n in enumerate(size)]


def access_of(key, tensor: KernelTensor, coordinates, ranges) -> KernelAccess:
    """How the loops step through a tensor; refused where that is not what the coordinates say."""
    found: dict = {}
    offset = 0
    for c, by in zip(coordinates, tensor.layout.stride_map):
        constant = c.subs(dict.fromkeys(c.free_symbols, 0))
        offset += int(constant) * max(by, 0)
        for v, multiplier, divisor in _terms(key, c, ranges):
            step, rest = divmod(by * multiplier, divisor)
            if by > 0 and rest == 0:
                found[v] = min(found.get(v, step), step)
    index = sum((step * v for v, step in found.items()), sympy.Integer(offset))
    made = compute_coordinates(tensor.layout.device_size, tensor.layout.stride_map, ranges, index)
    for dim, (c, got) in enumerate(zip(coordinates, made)):
        if sympy.simplify(_reduced(c, ranges) - _reduced(got, ranges)) != 0:
            raise Unsupported(
                f"{named_key(key)}: device dimension {dim} has the coordinate {c}, and {got} in the layout {tensor.layout}, whose "
                f"host has the size {tensor.layout.host_size}"
            )
    return KernelAccess(tensor, found, offset)


def _reduced(expr, ranges):
    """The expression without remainders and quotients that the ranges of the loops make needless. A quotient of one loop
    grows with it, so that one which is 0 at the end is 0."""
    expr = sympy.sympify(expr).replace(FloorDiv, lambda a, b: sympy.floor(a / b))
    for v, n in ranges.items():
        expr = expr.replace(lambda e, v=v, n=n: isinstance(e, sympy.Mod) and e.args[0] == v and e.args[1] >= n, lambda e: e.args[0])
        expr = expr.replace(lambda e, v=v, n=n: isinstance(e, sympy.floor) and e.free_symbols == {v} and e.subs(v, n - 1) == 0, lambda e: sympy.S.Zero)
    return expr.subs({v: 0 for v, n in ranges.items() if n == 1})


def _terms(key, coordinate, ranges) -> list[tuple[sympy.Symbol, int, int]]:
    """The terms of a coordinate: loop, multiplier, divisor."""
    found = []
    for term in sympy.Add.make_args(_reduced(coordinate, ranges)):
        multiplier, core = term.as_coeff_Mul()
        if core == 1 or term == 0:
            continue
        divisor = 1
        if isinstance(core, sympy.Mod):
            core = core.args[0]
        if isinstance(core, sympy.floor):
            core, divisor = sympy.fraction(sympy.together(core.args[0]))
            core = core.args[0] if isinstance(core, sympy.Mod) else core
        if not core.is_Symbol or core not in ranges or not multiplier.is_Integer or not sympy.sympify(divisor).is_Integer:
            raise Unsupported(f"{named_key(key)}: the coordinate {coordinate}; accepted are sums of loops, and of their quotients and remainders by integers")
        found.append((core, int(multiplier), int(divisor)))
    return found
