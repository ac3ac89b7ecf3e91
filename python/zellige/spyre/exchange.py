"""What processes of a group agree on before they exchange tensors, how elements travel, and what it costs the cards.

Elements travel through the host, and are charged as if the cards sent them to each other: ``zellige_machine::Collective``
has the formulas. Every exchange begins with a header of each process. All processes read all headers, so a call that
does not fit those of the others is the same error everywhere, and simulated clocks meet: an exchange begins when the
last process is there.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import threading

import torch
import torch.distributed as dist

from .. import _logs, _native

# Exchanges that are remembered.
# Bounded, because a training run exchanges gradients for days.
_KEPT = 10_000
# Elements of a tensor whose size a header tells; longer ones are told by their number of elements.
_DIMS = 8
_DTYPES = tuple(
    getattr(torch, name)
    for name in (
        "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 "
        "float8_e4m3fn float8_e5m2 uint16 uint32 uint64"
    ).split()
)
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter", "send", "recv", "barrier")
REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")


@dataclasses.dataclass(frozen=True)
class Collective:
    """One exchange between the cards of a group, in simulated time."""

    op: str
    dtype: str
    size: tuple[int, ...]
    ranks: int
    # Messages that follow one another, and the bytes that the busiest link carries in one direction.
    messages: int
    bytes: int
    # On the card's own clock; what the card waited for others is not part of its duration.
    start_us: float
    us: float
    waited_us: float

    def __str__(self) -> str:
        return f"{self.op} of {self.dtype} {list(self.size)} over {self.ranks} cards: {self.bytes} bytes, {self.us:.3f} us"


_records: collections.deque[Collective] = collections.deque(maxlen=_KEPT)
_watching = threading.local()


def collectives() -> list[Collective]:
    """The exchanges of this process with others, oldest first; the last ten thousand are kept."""
    return list(_records)


def reset_collectives() -> None:
    """Forgets what was exchanged."""
    _records.clear()


@contextlib.contextmanager
def watched(into: list[Collective]):
    """Adds what this thread exchanges inside to a list as well."""
    before = getattr(_watching, "lists", ())
    _watching.lists = (*before, into)
    try:
        yield
    finally:
        _watching.lists = before


@functools.cache
def element_bytes(dtype: torch.dtype) -> int:
    """Bytes of an element on the card."""
    if _native.is_held(dtype):
        return dtype.itemsize
    layout = _native.tensor_layout(torch.empty(1, dtype=dtype, device="spyre"))
    per_stick = layout.elems_per_stick() if layout is not None else None
    return 128 // per_stick if per_stick else dtype.itemsize


def host_dtype(dtype: torch.dtype) -> torch.dtype:
    """What the host holds elements in: float32 has every number of the card's 16-bit formats, float16 has not."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def down(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in host memory, one after the other."""
    tensor = tensor.detach()
    host = torch.empty(tensor.shape, dtype=host_dtype(tensor.dtype), device="cpu")
    _native.stage(tensor, host)
    return host.view(-1)


def up(tensor: torch.Tensor, flat: torch.Tensor) -> None:
    """Writes elements, one after the other, into a tensor of the card."""
    _native.stage(flat.to(host_dtype(tensor.dtype)).view(tensor.shape), tensor.detach())


def reduction(op) -> str:
    """The name of a reduction; an error where there is none of it."""
    name = next((n for n in REDUCTIONS if op == getattr(dist.ReduceOp, n)), None)
    if name is None:
        raise ValueError(f"spyreccl: a reduction by {op} is not known; accepted: {', '.join(REDUCTIONS)}")
    return name


def check_reduction(name: str, dtype: torch.dtype) -> None:
    """Refuses what a dtype has no reduction for, before anything is sent."""
    why = None
    if name in ("BAND", "BOR", "BXOR") and (dtype.is_floating_point or dtype.is_complex):
        why = "bits are those of integers and bool"
    elif name in ("MIN", "MAX") and dtype.is_complex:
        why = "complex numbers have no order"
    elif name in ("AVG", "PREMUL_SUM") and dtype == torch.bool:
        why = "bool has SUM, which is `or`, and no multiples"
    if why is not None:
        raise ValueError(f"spyreccl: {name} of {dtype_name(dtype)}: {why}")


def reduced(name: str, parts: list[torch.Tensor], factor=None) -> torch.Tensor:
    """The reduction of one part of each process, in the order of their ranks.

    Floats of 16 bits and less are added up in float32 and rounded once, as the card's own sums are. Integers wrap, the
    average of integers is cut towards zero, and of bool a sum is `or` and a product `and`."""
    combine = {
        "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
        "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
    }.get(name, torch.add)
    narrow = parts[0].dtype
    if narrow.is_floating_point and narrow.itemsize < 4:
        parts = [p.float() for p in parts]
    if name == "PREMUL_SUM":
        parts = [p * factor for p in parts]
    total = functools.reduce(combine, parts)
    if name == "AVG":
        whole = not (total.is_floating_point() or total.is_complex())
        total = torch.div(total, len(parts), rounding_mode="trunc" if whole else None)
    return total.to(narrow)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclasses.dataclass
class Call:
    """What one process asks for: an exchange, with the elements that it gives to each process and takes from it."""

    kind: str
    card: int
    tensor: torch.Tensor | None
    # By rank.
    given: list[int]
    taken: list[int]
    # Bytes of the card, as the table of `zellige_machine::Collective` counts them.
    bytes: int = 0
    reduction: str = ""
    root: int = -1

    @property
    def size(self) -> tuple[int, ...]:
        return () if self.tensor is None else tuple(self.tensor.shape)

    @property
    def dtype(self) -> torch.dtype:
        return torch.uint8 if self.tensor is None else self.tensor.dtype

    def header(self, number: int) -> torch.Tensor:
        """It as numbers, for the other processes."""
        size = self.size if len(self.size) <= _DIMS else (sum(self.given) // max(1, len(self.given)),)
        how = REDUCTIONS.index(self.reduction) if self.reduction else -1
        fields = [number, KINDS.index(self.kind), _DTYPES.index(self.dtype), how, self.root, _native.stream_clock(self.card), self.bytes]
        return torch.tensor([*fields, len(size), *size, *[0] * (_DIMS - len(size)), *self.given, *self.taken], dtype=torch.int64)


class Heard:
    """The header of a process."""

    def __init__(self, numbers: list[int], ranks: int):
        self.number, kind, dtype, how, self.root, self.clock, self.bytes, dims = numbers[:8]
        self.kind, self.dtype = KINDS[kind], dtype_name(_DTYPES[dtype])
        self.reduction = REDUCTIONS[how] if how >= 0 else ""
        self.size = numbers[8 : 8 + dims]
        self.given = numbers[8 + _DIMS : 8 + _DIMS + ranks]
        self.taken = numbers[8 + _DIMS + ranks :]

    def __str__(self) -> str:
        how = f" by {self.reduction}" if self.reduction else ""
        root = f" of rank {self.root}" if self.root >= 0 else ""
        return f"{self.kind}{how}{root} of {self.dtype} {self.size}"


def check(heard: list[Heard]) -> None:
    """Refuses calls of a group that do not fit each other: everywhere with the same words."""
    first = heard[0]
    same = [(h.number, h.kind, h.dtype, h.reduction, h.root) for h in heard]
    wrong = None
    if any(s != same[0] for s in same):
        wrong = "all of them have to call the same operations in the same order, with one dtype"
    else:
        for giver, g in enumerate(heard):
            for taker, t in enumerate(heard):
                if g.given[taker] != t.taken[giver]:
                    wrong = f"rank {giver} has {g.given[taker]} elements for rank {taker}, which takes {t.taken[giver]}"
                    break
            if wrong:
                break
    if wrong is None:
        return
    calls = "; ".join(f"rank {rank}: {h}" for rank, h in enumerate(heard[:16]))
    raise dist.DistBackendError(
        f"spyreccl: call {first.number} of a group of {len(heard)} processes does not fit: {wrong} ({calls})"
    )


def account(call: Call, ranks: int, nbytes: int, ready: int) -> None:
    """Enters an exchange into the card's account: it begins when the last process is ready."""
    clock = _native.stream_clock(call.card)
    start, end = _native.account_collective(call.card, call.kind, ranks, nbytes, ready, dtype_name(call.dtype), list(call.size))
    messages, carried, _ = _native.collective_cost(call.card, call.kind, ranks, nbytes)
    record = Collective(
        call.kind, dtype_name(call.dtype), call.size, ranks, messages, carried, start / 1e6, (end - start) / 1e6, max(0, start - clock) / 1e6
    )
    _records.append(record)
    for watcher in getattr(_watching, "lists", ()):
        watcher.append(record)
    _logs.spyre.debug("%s", record)
