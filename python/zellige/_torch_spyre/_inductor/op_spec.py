"""The operations of a kernel as records: loops, tensors, and where on the device every iteration reads and writes.

``torch_spyre.execution.async_compile`` compiles lists of them for the simulated card. Records hold what they are given;
what does not describe an operation of the card is refused there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import sympy
import torch

from zellige import DataFormats, ElementArrangement

from .constants import IDENTITY_OP

# Constants that are kept on the cards, in all.
_MOST_CONSTANTS = 1000


class IndirectAccess(sympy.Function):
    """``IndirectAccess(name)`` in a coordinate: the number that the tensor of that name has at this iteration."""

    @classmethod
    def eval(cls, name):
        return None


@dataclasses.dataclass(frozen=True)
class SourceLoc:
    """A place in a source file."""

    file: str
    start_line: int
    start_col: int = 0
    end_line: int | None = None
    end_col: int | None = None

    def to_str(self) -> str:
        """``file:line:column``."""
        return f"{self.file}:{self.start_line}:{self.start_col}"

    def to_dict(self) -> dict[str, object]:
        """The fields by their names."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class ProvenanceTransform:
    """A change that a pass made to an operation."""

    kind: str
    pass_name: str
    reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The fields by their names."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class DebugHandle:
    """Where an operation comes from. One that was made of several operations has them in ``fused_from``, and need not have
    a place of its own."""

    id: int
    source: SourceLoc | None
    aten_op: str | None
    ir_chain: tuple[str, ...]
    fused_from: tuple[DebugHandle, ...] = ()
    transform_history: tuple[ProvenanceTransform, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The fields by their names, for JSON: the number is a text, since readers may have 53 bits for numbers."""
        return {
            "id": str(self.id),
            "source": None if self.source is None else self.source.to_dict(),
            "aten_op": self.aten_op,
            "ir_chain": list(self.ir_chain),
            "fused_from": [handle.to_dict() for handle in self.fused_from],
            "transform_history": [change.to_dict() for change in self.transform_history],
        }


@dataclasses.dataclass(frozen=True)
class TensorWorkDivision:
    """Which core has which slice of a tensor: the slices of every loop, and the slice of a core as an expression in the
    symbol ``core_id``."""

    work_slices: dict[sympy.Symbol, int]
    core_id_to_work_slice: dict[sympy.Symbol, sympy.Expr]

    def remap_symbols(self, symbol_mapping: dict[sympy.Symbol, sympy.Symbol]) -> TensorWorkDivision:
        """The same with other names of loops."""
        renamed = lambda loop: symbol_mapping.get(loop, loop)
        return TensorWorkDivision(
            {renamed(loop): slices for loop, slices in self.work_slices.items()},
            {renamed(loop): sympy.sympify(at).xreplace(symbol_mapping) for loop, at in self.core_id_to_work_slice.items()},
        )

    def to_core_slices(self, num_cores: int) -> dict[str, dict[str, int]]:
        """The slices of every core, as SuperDSC lists them. For all cores ``c`` and loops ``l``,
        ``result[c][l] == core_id_to_work_slice[l](c)``, a number below ``work_slices[l]``."""
        core_id, found = sympy.Symbol("core_id"), {}
        for core in range(num_cores):
            at = {loop: int(sympy.sympify(slot).subs(core_id, core)) for loop, slot in self.core_id_to_work_slice.items()}
            for loop, slot in at.items():
                if not 0 <= slot < self.work_slices[loop]:
                    raise ValueError(f"core {core} would have slice {slot} of {loop}, which has {self.work_slices[loop]} slices")
            found[str(core)] = {str(loop): slot for loop, slot in at.items()}
        return found


@dataclasses.dataclass
class TensorArg:
    """A tensor of an operation.

    ``arg_index`` is its number among the tensors that a launch is given; -1 is a tensor that lives inside the kernel, known by
    its ``name`` or its ``allocation``. ``device_coordinates`` has an expression in the loops of the operation for every
    device dimension.
    """

    is_input: bool
    arg_index: int
    device_dtype: DataFormats
    device_size: list[int]
    device_coordinates: list[sympy.Expr]
    allocation: dict[str, Any]
    name: str | None = None
    device_tile_advance_expr: sympy.Expr | None = None
    element_arrangement: ElementArrangement = ElementArrangement.STANDARD
    work_division: TensorWorkDivision | None = None


@dataclasses.dataclass
class OpSpec:
    """An operation of the device: its function, its loops (each with its range and the slices that it is divided into), and
    its tensors, inputs first."""

    op: str
    is_reduction: bool
    iteration_space: dict[sympy.Symbol, tuple[sympy.Expr, int]]
    args: Sequence[TensorArg]
    op_info: dict[str, Any]
    tiled_symbols: list[list[sympy.Symbol]] = dataclasses.field(default_factory=list)
    tiled_symbol_trip_counts: dict[sympy.Symbol, int] = dataclasses.field(default_factory=dict)
    symbolic_dim_bounds: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    node_output_ranges: tuple[sympy.Expr, ...] | None = None
    debug_handle: DebugHandle | None = None


@dataclasses.dataclass
class UnimplementedOp:
    """An operation that the device has no function for: a kernel that has one raises when it is run."""

    op: str


@dataclasses.dataclass
class LoopSpec:
    """Operations that are repeated ``count`` times."""

    count: sympy.Expr
    body: list[Any]


def find_unimplemented(specs: Sequence) -> UnimplementedOp | None:
    """The first operation without a function, loops included."""
    for spec in specs:
        found = find_unimplemented(spec.body) if isinstance(spec, LoopSpec) else spec
        if isinstance(found, UnimplementedOp):
            return found
    return None


def is_lx_relayout_identity(op: str, args: Sequence[TensorArg]) -> bool:
    """Whether an operation only gives slices in the scratchpads to other cores."""
    if op != IDENTITY_OP or len(args) != 2 or any("lx" not in arg.allocation for arg in args):
        return False
    source, destination = (arg.work_division for arg in args)
    return None not in (source, destination) and source != destination


def format_op_spec_list(specs: Sequence, indent: int = 0) -> str:
    """The operations as a text, a line for each and for each of its tensors."""
    lines: list[str] = []
    # A stack of our own, so that deep nests need no deep calls: records with their depth, and texts that are ready.
    left: list[tuple[Any, int]] = [(spec, indent) for spec in reversed(list(specs))]
    while left:
        spec, depth = left.pop()
        if isinstance(spec, LoopSpec):
            left.append((f"{'  ' * depth}]", -1))
            left.extend((inner, depth + 1) for inner in reversed(spec.body))
            text = [f"LoopSpec(count={spec.count}) ["]
        elif isinstance(spec, OpSpec):
            text = [_described(spec), *("  " + _described_tensor(arg) for arg in spec.args)]
        else:
            text = [spec if isinstance(spec, str) else repr(spec)]
        lines.extend("  " * max(depth, 0) + line for line in text)
    return "\n".join(lines)


def _described(spec: OpSpec) -> str:
    loops = ", ".join(f"{loop}: ({extent}, {slices})" for loop, (extent, slices) in spec.iteration_space.items())
    tiled = f", tiled_symbols={spec.tiled_symbols}" if spec.tiled_symbols else ""
    return f"OpSpec(op={spec.op!r}, is_reduction={spec.is_reduction}, iteration_space={{{loops}}}{tiled})"


def _described_tensor(arg: TensorArg) -> str:
    kind = "input" if arg.is_input else "output"
    return (
        f"TensorArg({kind}, arg_index={arg.arg_index}, device_size={arg.device_size}, "
        f"device_coordinates={arg.device_coordinates}, allocation={arg.allocation})"
    )


def spyre_constant_tensor(const_val, device, dtype=torch.float16):
    """A tensor of one number. One on a card is made once and shared by all callers, so it must not be written."""
    device = torch.device(device)
    if device.type != "spyre":
        return torch.tensor(const_val, dtype=dtype, device=device)
    index = torch.spyre.current_device() if device.index is None else device.index
    # The sign is a part of the key, because 0.0 and -0.0 are equal as numbers.
    value = float(const_val)
    return _constant(value, str(value), index, dtype)


@functools.lru_cache(maxsize=_MOST_CONSTANTS)
def _constant(value, _text, index, dtype):
    return torch.full((), value, dtype=dtype, device=torch.device("spyre", index))


def clear_constant_tensor_cache() -> None:
    """Forgets the constants, so that their memory is freed with their last reference."""
    _constant.cache_clear()
