"""Operators that the card has no kernel for: they run on the CPU, and are counted."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import warnings

import torch

from .. import _logs, _native
from .dispatcher import operator

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))


# The reason for operations that the card of the profile does not run.
LEFT_TO_THE_HOST = "the card's profile leaves it to the host"


class FallbackWarning(UserWarning):
    """An operator ran on the CPU; each operator warns once."""


@dataclasses.dataclass
class Fallback:
    """How often an operator ran on the CPU, why, and which lines of the program called it."""

    op: str
    count: int = 0
    bytes: int = 0
    reason: str = "the device has no kernel for it"
    places: dict[str, int] = dataclasses.field(default_factory=dict)


_records: dict[str, Fallback] = {}
_lock = threading.Lock()


def fallbacks() -> dict[str, Fallback]:
    """What ran on the CPU so far, by operator: counts, bytes moved, reasons and places."""
    with _lock:
        return dict(sorted(_records.items(), key=lambda item: -item[1].count))


def reset_fallbacks() -> None:
    """Forgets what ran on the CPU; each operator warns once again."""
    with _lock:
        _records.clear()


def _place() -> tuple[str, int]:
    """File and line of the caller outside PyTorch and this package."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_HERE, _TORCH)) and not name.startswith("<frozen"):
            return name, frame.f_lineno
        frame = frame.f_back
    return "unknown", 0


def record(op: str, nbytes: int, reason: str | None = None, place: str | None = None) -> None:
    """Counts a fallback of ``op``, and warns at its first. Its place is the caller's line unless it is given."""
    if place is None:
        file, line = _place()
        place = f"{file}:{line}"
    else:
        file, _, line = place.rpartition(":")
        file, line = (file, int(line)) if line.isdigit() else (place, 0)
    with _lock:
        entry = _records.get(op)
        first = entry is None
        if first:
            entry = _records[op] = Fallback(op)
        entry.count += 1
        entry.bytes += nbytes
        if reason:
            entry.reason = reason
        if place in entry.places or len(entry.places) < 100:
            entry.places[place] = entry.places.get(place, 0) + 1
    _logs.fallback(op, place, nbytes, reason, first)
    if first:
        why = f": {reason}" if reason else ""
        warnings.warn_explicit(f"{op} is falling back to cpu{why}", FallbackWarning, file, line)


def _is_spyre(value) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "spyre"


# Operators that take an index in host memory beside tensors of the device.
_HOST_INDICES = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


class _CpuCall:
    """One operator that runs on the CPU: its arguments are copied to the host, and its results to the device."""

    def __init__(self, op):
        self.op = op
        self.device = None
        self.nbytes = 0
        self.memo: dict[int, torch.Tensor] = {}
        self.host = False
        # The error of the CPU's operator, where it raised one.
        self.said: Exception | None = None
        # Tensors that the operator writes into.
        self.written: set[int] = set()

    def down(self, value):
        if isinstance(value, torch.Tensor):
            if value.device.type != "spyre":
                self.host = self.host or value.dim() > 0
                return value
            if value.is_nested:
                from .kernels.nested import check_strided

                check_strided(self.op, value)
            self.device = self.device or value.device
            if value.device != self.device:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{self.device} and {value.device}!"
                )
            copy = self.memo.get(id(value))
            if copy is None:
                copy = value.detach().cpu()
                if id(value) in self.written and not copy.is_contiguous():
                    # Some kernels of the CPU write past an output with other strides (`tril`, `lu_unpack` of 2.15).
                    copy = copy.contiguous()
                self.memo[id(value)] = copy
                self.nbytes += value.numel() * value.element_size()
            return copy
        if isinstance(value, (list, tuple)):
            return type(value)(self.down(v) for v in value)
        if isinstance(value, torch.device) and value.type == "spyre":
            self.device = self.device or value
            return torch.device("cpu")
        return value

    def up(self, value, back):
        if isinstance(value, torch.Tensor):
            known = back.get(id(value))
            if known is not None:
                return known
            self.nbytes += value.numel() * value.element_size()
            return value.to(self.device) if value.device.type == "cpu" else value
        if isinstance(value, (list, tuple)):
            return type(value)(self.up(v, back) for v in value)
        return value

    def wrap_numbers(self, args):
        """The arguments with tensors where the operator takes no numbers: PyTorch hands a tensor that it made of a
        number to a kernel in Python as that number."""
        wanted = [str(argument.type) == "Tensor" for argument in self.op._schema.arguments]
        if not any(wants and isinstance(a, (bool, int, float)) for wants, a in zip(wanted, args)):
            return args
        first = next((a for a in args if isinstance(a, torch.Tensor)), torch.empty(()))
        return [
            torch.tensor(a, dtype=torch.result_type(first, a)) if wants and isinstance(a, (bool, int, float)) else a
            for wants, a in zip(wanted, args)
        ]

    def run(self, args, kwargs, reason=None):
        schema = self.op._schema
        for result in schema.returns:
            if result.alias_info is not None and not result.alias_info.is_write:
                raise NotImplementedError(
                    f"{self.op} makes a view, and the device has none of that kind: copy the tensor "
                    "to the CPU first"
                )
        for i, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = args[i] if i < len(args) else kwargs.get(argument.name)
                self.written.update(id(t) for t in (given if isinstance(given, (list, tuple)) else [given]))
        low_args = self.wrap_numbers([self.down(a) for a in args])
        low_kwargs = {k: self.down(v) for k, v in kwargs.items()}
        if self.device is None:
            self.device = torch.device("spyre", torch.spyre.current_device())
        if self.host and self.memo and schema.name not in _HOST_INDICES:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{self.device} and cpu!"
            )
        try:
            out = self.op(*low_args, **low_kwargs)
        except Exception as error:
            self.said = error
            raise
        written = []
        for i, argument in enumerate(schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            if i < len(args):
                written.append((args[i], low_args[i]))
            elif argument.name in kwargs:
                written.append((kwargs[argument.name], low_kwargs[argument.name]))
        back = {}
        for high, low in written:
            pairs = zip(high, low) if isinstance(high, (list, tuple)) else [(high, low)]
            for h, l in pairs:
                if not _is_spyre(h):
                    continue
                if h.shape != l.shape:
                    h.resize_(l.shape)
                h.copy_(l)
                back[id(l)] = h
        result = self.up(out, back)
        record(schema.name + ("." + schema.overload_name if schema.overload_name else ""), self.nbytes, reason)
        return result


@torch._disable_dynamo
def boxed(op, *args, **kwargs):
    """The kernel of all operators that have no other on the device."""
    return _CpuCall(op).run(args, kwargs)


class _CpuFallback:
    """Runs an operator on the CPU whose operands a kernel of the card refused."""

    @torch._disable_dynamo
    def __call__(self, name, reason, args, kwargs):
        call = _CpuCall(operator(name))
        try:
            return call.run(args, kwargs or {}, reason)
        except Exception as error:
            if call.said is None:
                # The operator did not run, or its results cannot be written to the device.
                if isinstance(error, _native.LayoutError):
                    raise RuntimeError(f"{reason}: {error}") from error
                raise
            # What the CPU refuses too is the user's mistake; our message names the operand.
            kind = type(error)
            kind = kind if kind in (IndexError, ValueError, TypeError, NotImplementedError) else RuntimeError
            raise kind(f"{reason} (the CPU says: {str(error).splitlines()[0] if str(error) else kind.__name__})") from error

    @staticmethod
    def listed(op: str, nbytes: int) -> None:
        """Counts an operation that the coverage profile of the card leaves to the host."""
        record(op, nbytes, LEFT_TO_THE_HOST)

    @staticmethod
    def warn(subject: str, text: str) -> None:
        """Tells the user what happens to numbers on their way to the device."""
        from . import device

        place = _place()
        _logs.spyre.info("%s at %s:%d", subject, *place)
        if device.get_downcast_warning():
            warnings.warn_explicit(text, UserWarning, *place)


by_name = _CpuFallback()
_libraries: list[torch.library.Library] = []


def install() -> None:
    """Registers the boxed fallback, and lets autocast pass."""
    library = torch.library.Library("_", "IMPL")
    library.fallback(boxed, "PrivateUse1")
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    _libraries.append(library)
