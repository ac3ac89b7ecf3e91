"""From the records of a kernel (``_inductor.op_spec``) to a graph of the compiler.

Every tensor of the kernel becomes one of the graph whose dimensions are the loops that step through it, pinned to the device
layout of its record. Every access is checked against the engine: the coordinates that it computes for the layout are those
of the record, or the kernel is refused.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import sympy
from torch.utils._sympy.functions import FloorDiv

from zellige import DataFormats, LayoutError, SpyreTensorLayout, _native

from .._inductor import constants
from .._inductor.errors import Unsupported
from .._inductor.op_spec import IndirectAccess, LoopSpec, OpSpec, TensorArg
from .._inductor.views import compute_coordinates

# The dtypes that kernels compute with, by the formats that they are stored in.
_DTYPES = {
    DataFormats.SEN169_FP16: "float16",
    DataFormats.IEEE_FP32: "float32",
    DataFormats.SEN143_FP8: "float8_e4m3fn",
    DataFormats.IEEE_INT32: "int32",
    DataFormats.IEEE_INT64: "int64",
}
_CASTS = (
    "to_dtype",
    constants.DL16TOFP32_OP,
    constants.FP32TODL16_OP,
    constants.FP8TODL16_OP,
    constants.FP32TOINT32_OP,
    constants.INT32TOFP32_OP,
)
_COPIES = (constants.IDENTITY_OP, constants.RESTICKIFY_OP)
# They give truth values here; the device's functions write numbers.
_COMPARISONS = ("equal", "notequal", "lesserthan", "lesserequal", "greaterthan", "greaterequal")


@dataclasses.dataclass(frozen=True)
class KernelArgument:
    """A tensor that a launch is given."""

    index: int
    name: str
    dtype: str
    layout: SpyreTensorLayout
    written: bool


@dataclasses.dataclass
class _KernelTensor:
    """A tensor of the kernel: its value in the graph, its layout bound to its host, and whether it was written."""

    value: str
    dtype: str
    layout: SpyreTensorLayout
    written: bool = False


@dataclasses.dataclass(frozen=True)
class _Access:
    """How the loops of an operation step through a tensor, in elements of its host."""

    tensor: _KernelTensor
    steps: dict[sympy.Symbol, int]
    offset: int


@functools.cache
def _functions() -> dict:
    return {name: (op, kind, dict(names)) for name, op, kind, names in _native.device_functions()}


def graph_of_specs(name: str, specs: Sequence) -> tuple[dict, list[KernelArgument]]:
    """The graph of a kernel, and its arguments in their order. The results of the graph are the arguments that are written,
    in the order of the arguments."""
    writer = _KernelWriter(name)
    for spec in specs:
        if isinstance(spec, LoopSpec):
            raise Unsupported(f"a kernel with a counted loop ({spec.count} times): operations outside of loops are accepted")
        writer.add(spec)
    return writer.finish()


class _KernelWriter:
    def __init__(self, name: str) -> None:
        self._doc = {"name": name, "inputs": [], "ops": [], "outputs": []}
        self._tensors: dict = {}

    def add(self, spec: OpSpec) -> None:
        """Writes one operation."""
        inputs, outputs = [a for a in spec.args if a.is_input], [a for a in spec.args if not a.is_input]
        if len(outputs) != 1:
            raise Unsupported(f"{spec.op} with {len(outputs)} results: one is accepted")
        ranges = {loop: _fixed(extent, f"the range of {loop}") for loop, (extent, _) in spec.iteration_space.items()}
        splits = {loop: int(slices) for loop, (_, slices) in spec.iteration_space.items()}
        reads = [self._access(arg, ranges) for arg in inputs]
        write = self._access(outputs[0], ranges)
        if spec.op in _COPIES or spec.op in _CASTS:
            value, order = self._copied(spec, reads, write, ranges), list(ranges)
        else:
            op, kind, names = _functions().get(spec.op, (None, None, None))
            if kind is None:
                known = ", ".join(sorted({*_functions(), *_COPIES, *_CASTS}))
                raise Unsupported(f"the function {spec.op!r}: accepted are {known}")
            attributes = {names[k]: v for k, v in (spec.op_info.get("constants") or {}).items() if k in names}
            make = {"pointwise": self._pointwise, "reduction": self._reduction, "product": self._product}[kind]
            value, order = make(op, attributes, reads, write, ranges, splits)
        self._write(spec, value, order, write, ranges)

    def finish(self) -> tuple[dict, list[KernelArgument]]:
        """The graph with its results."""
        arguments = []
        for key, tensor in self._tensors.items():
            if key[0] == "argument":
                arguments.append(KernelArgument(key[1], f"arg{key[1]}", tensor.dtype, tensor.layout, tensor.written))
        arguments.sort(key=lambda a: a.index)
        if [a.index for a in arguments] != list(range(len(arguments))):
            raise Unsupported(f"a kernel with the arguments {[a.index for a in arguments]}: they are numbered from 0, without gaps")
        self._doc["inputs"] = [_input(a) for a in arguments]
        self._doc["outputs"] = [self._tensors["argument", a.index].value for a in arguments if a.written]
        if not self._doc["outputs"]:
            raise Unsupported("a kernel that writes none of its arguments: one or more is accepted")
        return self._doc, arguments

    def _op(self, op, inputs, pin=None, split=None, **attributes) -> str:
        name = f"v{len(self._doc['ops'])}"
        entry = {"op": op, "inputs": list(inputs), "outputs": [name]}
        for field, value in (("attributes", attributes), ("pin", pin), ("split", split)):
            if value:
                entry[field] = value
        self._doc["ops"].append(entry)
        return name

    def _access(self, arg: TensorArg, ranges) -> _Access:
        key = ("argument", arg.arg_index) if arg.arg_index >= 0 else ("inside", arg.name or repr(sorted(arg.allocation.items())))
        coordinates = [sympy.sympify(c) for c in arg.device_coordinates]
        if len(coordinates) != len(arg.device_size):
            raise Unsupported(f"{_named(key)}: {len(coordinates)} coordinates for the device dimensions {list(arg.device_size)}")
        if any(c.atoms(IndirectAccess) for c in coordinates):
            raise Unsupported(f"{_named(key)}: a coordinate that is read from another tensor; sums of loops are accepted")
        tensor = self._tensors.get(key)
        if tensor is None:
            if key[0] == "inside" and arg.is_input:
                raise Unsupported(f"{_named(key)} is read before it is written")
            tensor = self._tensors[key] = _defined(key, arg, coordinates, ranges)
        elif list(tensor.layout.device_size) != list(arg.device_size) or tensor.layout.device_dtype != arg.device_dtype:
            raise Unsupported(
                f"{_named(key)} has the device dimensions {list(arg.device_size)} ({arg.device_dtype.name}) here and "
                f"{tensor.layout.device_size} ({tensor.layout.device_dtype.name}) before: one layout is accepted"
            )
        return _access_of(key, tensor, coordinates, ranges)

    def _view(self, access: _Access, loops, ranges) -> str:
        """The part of a tensor that an operation reads, with a dimension for every loop; of size 1 where the tensor has none."""
        size = [ranges[loop] if loop in access.steps else 1 for loop in loops]
        stride = [access.steps.get(loop, 0) for loop in loops]
        host = access.tensor.layout
        whole = zip(host.host_size, host.host_stride)
        if access.offset == 0 and size == host.host_size and all(s == o or n == 1 for s, (n, o) in zip(stride, whole)):
            return access.tensor.value
        return self._op("as_strided", [access.tensor.value], size=size, stride=stride, storage_offset=access.offset)

    def _copied(self, spec, reads, write, ranges) -> str:
        if len(reads) != 1:
            raise Unsupported(f"{spec.op} of {len(reads)} tensors: one is accepted")
        (read,) = reads
        value = self._spread(self._view(read, ranges, ranges), read, ranges)
        if read.tensor.dtype == write.tensor.dtype:
            return self._op("clone", [value])
        return self._cast(value, write.tensor.dtype)

    def _cast(self, value, dtype) -> str:
        import torch

        return self._op("cast", [value], dtype=dtype, wide=_native.keeps(getattr(torch, dtype)))

    def _spread(self, value, read, ranges) -> str:
        """The value over all loops, where its tensor has not all of them."""
        if all(loop in read.steps or n == 1 for loop, n in ranges.items()):
            return value
        return self._op("expand", [value], size=list(ranges.values()))

    def _pointwise(self, op, attributes, reads, write, ranges, splits):
        values = [self._view(read, ranges, ranges) for read in reads]
        if reads and not any(all(loop in r.steps or n == 1 for loop, n in ranges.items()) for r in reads):
            values[0] = self._spread(values[0], reads[0], ranges)
        split = {f"c{d}": splits[loop] for d, loop in enumerate(ranges) if splits[loop] > 1}
        return self._op(op, values, split=split, **attributes), list(ranges)

    def _reduction(self, op, attributes, reads, write, ranges, splits):
        if len(reads) != 1:
            raise Unsupported(f"the reduction {op} of {len(reads)} tensors: one is accepted")
        loops = list(ranges)
        value = self._spread(self._view(reads[0], loops, ranges), reads[0], ranges)
        dims = [d for d, loop in enumerate(loops) if loop not in write.steps and ranges[loop] > 1]
        kept = [loop for d, loop in enumerate(loops) if d not in dims]
        split = {f"c{d}": splits[loop] for d, loop in enumerate(kept) if splits[loop] > 1}
        return self._op(op, [value], split=split, dim=dims, keepdim=False, **attributes), kept

    def _product(self, op, attributes, reads, write, ranges, splits):
        if len(reads) != 2:
            raise Unsupported(f"the product of {len(reads)} tensors: two are accepted")
        a, b, c = (set(x.steps) for x in (*reads, write))
        summed, columns = [v for v in ranges if v in a & b - c], [v for v in ranges if v in b & c - a]
        if len(summed) != 1 or len(columns) != 1 or (a | b) - c - set(summed):
            raise Unsupported(f"a product that sums over {summed or 'no loop'} with the columns {columns or 'none'}: one loop of each is accepted")
        rows = [v for v in ranges if v in a & c - b]
        outer = [v for v in ranges if v in c and v not in columns and v not in rows[-1:]]
        left = self._view(reads[0], [*outer, *rows[-1:], *summed], ranges)
        right = self._view(reads[1], [*outer, *summed, *columns], ranges)
        if not rows:
            # A vector on the left: it has no dimension for rows yet.
            left = self._op("reshape", [left], size=[ranges[v] if v in a else 1 for v in outer] + [1, ranges[summed[0]]])
        names = {"N": columns, "K": summed, "M": rows[-1:], "B": outer if len(outer) == 1 else []}
        split = {name: splits[v] for name, loops in names.items() for v in loops if splits[v] > 1}
        value = self._op(op, [left, right], split=split, **attributes)
        order = [*outer, *rows[-1:], *columns]
        if not rows:
            value = self._op("reshape", [value], size=[ranges[v] for v in order])
        return value, order

    def _write(self, spec, value, order, write: _Access, ranges) -> None:
        """Gives the tensor its new value, all of it."""
        tensor = write.tensor
        host = tensor.layout
        wanted = sorted(write.steps, key=lambda loop: -write.steps[loop])
        kept = [loop for loop in order if loop in write.steps or ranges[loop] > 1]
        sizes = [ranges[loop] for loop in wanted]
        strides = [write.steps[loop] for loop in wanted]
        if set(kept) != set(wanted) or write.offset != 0 or sizes != host.host_size or strides != host.host_stride:
            raise Unsupported(
                f"{spec.op} writes {dict(zip(map(str, wanted), sizes))} from element {write.offset} on of a tensor of "
                f"{host.host_size}: results that are a whole tensor are accepted"
            )
        if kept != order:
            value = self._op("reshape", [value], size=[ranges[loop] for loop in kept])
        if kept != wanted:
            value = self._op("permute", [value], dims=[kept.index(loop) for loop in wanted])
        if spec.op in _COMPARISONS:
            value = self._cast(value, tensor.dtype)
        last = self._doc["ops"][-1]
        if last["op"] in ("reshape", "permute", "as_strided", "expand"):
            value = self._op("clone", [value])
            last = self._doc["ops"][-1]
        last["pin"] = {"layout": repr(tensor.layout)}
        tensor.value, tensor.written = value, True


def _input(argument: KernelArgument) -> dict:
    entry = {"name": argument.name, "dtype": argument.dtype, "size": argument.layout.host_size}
    if argument.written:
        entry["role"] = "state"
    return {**entry, "pin": {"layout": repr(argument.layout)}}


def _named(key) -> str:
    return f"argument {key[1]}" if key[0] == "argument" else f"the tensor {key[1]}"


def _fixed(expr, what) -> int:
    expr = sympy.sympify(expr)
    if not expr.is_Integer:
        raise Unsupported(f"{what} is {expr}: a number is accepted")
    return int(expr)


def _defined(key, arg: TensorArg, coordinates, ranges) -> _KernelTensor:
    """A tensor with a dimension for every loop of its first access, row-major in their order."""
    dtype = _DTYPES.get(arg.device_dtype)
    if dtype is None:
        accepted = ", ".join(f.name for f in _DTYPES)
        raise Unsupported(f"{_named(key)} is stored as {arg.device_dtype.name}: accepted are {accepted}")
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
        raise Unsupported(f"{_named(key)}: {error}") from None
    return _KernelTensor(f"arg{key[1]}" if key[0] == "argument" else "", dtype, layout)


def _row_major(size) -> list[int]:
    from zellige import Layout

    # Of the engine: the places of the unit steps.
    whole = Layout.strided(size) if size else None
    return [whole.apply(*(int(e == d) for e in range(len(size))))[0]["m"] if n > 1 else 1 for d, n in enumerate(size)]


def _access_of(key, tensor: _KernelTensor, coordinates, ranges) -> _Access:
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
                f"{_named(key)}: device dimension {dim} has the coordinate {c}, and {got} in the layout {tensor.layout}, whose "
                f"host has the size {tensor.layout.host_size}"
            )
    return _Access(tensor, found, offset)


def _reduced(expr, ranges):
    """The expression without remainders and quotients that the ranges of the loops make needless."""
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
            raise Unsupported(f"{_named(key)}: the coordinate {coordinate}; sums of loops, and of their quotients and remainders by numbers, are accepted")
        found.append((core, int(multiplier), int(divisor)))
    return found
