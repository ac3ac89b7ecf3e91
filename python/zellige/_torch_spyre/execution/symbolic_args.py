"""What the symbols of a kernel stand for at a launch: addresses of tensors, and sizes of their dimensions."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import torch


class SymbolicArgKind(enum.Enum):
    """The kind of value that a symbol denotes."""

    kAddress = 0
    kDimension = 1


class SymbolicArg:
    """One symbol: the address of tensor ``tensor_id`` of the launch, or the size of its dimension ``dim_index``. A ``value`` of 0
    or more is a size that is known, and has to be the tensor's."""

    __slots__ = ("dim_index", "kind", "tensor_id", "value")

    def __init__(self, kind: SymbolicArgKind, tensor_id: int, dim_index: int = -1, value: int = -1) -> None:
        if not isinstance(kind, SymbolicArgKind):
            raise TypeError(f"the kind of a symbol is a SymbolicArgKind, not {kind!r}")
        self.kind, self.tensor_id, self.dim_index, self.value = kind, int(tensor_id), int(dim_index), int(value)

    def __repr__(self) -> str:
        return f"SymbolicArg(kind={self.kind}, tensor_id={self.tensor_id}, dim_index={self.dim_index}, value={self.value})"

    def __eq__(self, other) -> bool:
        return isinstance(other, SymbolicArg) and all(getattr(self, f) == getattr(other, f) for f in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.kind, self.tensor_id, self.dim_index, self.value))


def resolve_symbolic_args(tensors: Sequence[torch.Tensor], symbolic_args: Sequence[SymbolicArg]) -> list[int]:
    """The value of every symbol, in their order."""
    found = []
    for symbol in symbolic_args:
        if not 0 <= symbol.tensor_id < len(tensors):
            raise RuntimeError(f"tensor_id={symbol.tensor_id} out of range: the launch has {len(tensors)} tensors")
        tensor = tensors[symbol.tensor_id]
        if symbol.kind == SymbolicArgKind.kAddress:
            found.append(tensor.data_ptr())
            continue
        if not 0 <= symbol.dim_index < tensor.dim():
            raise RuntimeError(f"dim_index={symbol.dim_index} out of range: tensor {symbol.tensor_id} has {tensor.dim()} dimensions")
        size = tensor.shape[symbol.dim_index]
        if symbol.value not in (-1, size):
            raise RuntimeError(f"dimension {symbol.dim_index} of tensor {symbol.tensor_id} has the size {size}, not {symbol.value}")
        found.append(size)
    return found


def bound_tensors(tensors: Sequence[torch.Tensor], symbolic_args: Sequence[SymbolicArg]) -> list[torch.Tensor]:
    """The tensors in the order of the addresses: symbol ``i`` is argument ``i`` of the kernel. Sizes are only checked, since those
    of a program are fixed."""
    resolve_symbolic_args(tensors, symbolic_args)
    addresses = [s.tensor_id for s in symbolic_args if s.kind == SymbolicArgKind.kAddress]
    return [tensors[i] for i in addresses] if addresses else list(tensors)
