"""From the records of a kernel (``_inductor.op_spec``) to a graph of the compiler.

Every tensor of the kernel becomes one of the graph, pinned to the device layout of its record; ``kernel_accesses`` says how
loops step through it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import sympy

from zellige import SpyreTensorLayout, _native

from .._inductor import constants
from .._inductor.errors import Unsupported
from .._inductor.op_spec import IndirectAccess, LoopSpec, OpSpec, TensorArg
from .kernel_accesses import KernelAccess, KernelTensor, access_of, define_tensor, fixed_number, named_key

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
        ranges = {loop: fixed_number(extent, f"the range of {loop}") for loop, (extent, _) in spec.iteration_space.items()}
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

    def _access(self, arg: TensorArg, ranges) -> KernelAccess:
        key = ("argument", arg.arg_index) if arg.arg_index >= 0 else ("inside", arg.name or repr(sorted(arg.allocation.items())))
        coordinates = [sympy.sympify(c) for c in arg.device_coordinates]
        if len(coordinates) != len(arg.device_size):
            raise Unsupported(f"{named_key(key)}: {len(coordinates)} coordinates for the device dimensions {list(arg.device_size)}")
        if any(c.atoms(IndirectAccess) for c in coordinates):
            raise Unsupported(f"{named_key(key)}: a coordinate that is read from another tensor; sums of loops are accepted")
        tensor = self._tensors.get(key)
        if tensor is None:
            if key[0] == "inside" and arg.is_input:
                raise Unsupported(f"{named_key(key)} is read before it is written")
            tensor = self._tensors[key] = define_tensor(key, arg, coordinates, ranges)
        elif list(tensor.layout.device_size) != list(arg.device_size) or tensor.layout.device_dtype != arg.device_dtype:
            raise Unsupported(
                f"{named_key(key)} has the device dimensions {list(arg.device_size)} ({arg.device_dtype.name}) here and "
                f"{tensor.layout.device_size} ({tensor.layout.device_dtype.name}) before: one layout is accepted"
            )
        return access_of(key, tensor, coordinates, ranges)

    def _view(self, access: KernelAccess, loops, ranges) -> str:
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

    def _write(self, spec, value, order, write: KernelAccess, ranges) -> None:
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
