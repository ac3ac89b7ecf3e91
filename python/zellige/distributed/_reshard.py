"""``reshard`` and ``plan``."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import sys
from collections import OrderedDict

import torch
import torch.distributed as dist

from .. import _native
from . import _dtensor, _pack
from ._errors import ReshardError
from ._wire import Deadline, wire_of

# Bytes of the header that every process sends to every other one first. Messages that are as short travel behind it,
# because they cost no further latency there.
_HEADER = 320
_SLOT = 8192
_SHORT_SLOT = 512
_MANY = 64
_DIGEST = 32
_BUFFER, _SHARD, _INLINE = 0, 1, 2

_KEPT_PLANS = 256
# Bytes of a result from which on huge pages are requested: shorter results touch too few pages to gain by them.
_HUGE = 1 << 22
_CPU = torch.device("cpu")
_KEPT_ROUNDS = 32


def _slot(size):
    return _SLOT if size <= _MANY else _SHORT_SLOT


def _axes(mesh):
    """A mesh as names and sizes, slowest first."""
    if mesh is None:
        return None
    if isinstance(mesh, str):
        axes = []
        for part in filter(None, (p.strip() for p in mesh.split(","))):
            name, _, size = part.partition("=")
            if not size.strip().isdigit():
                raise ValueError(f"mesh: {part!r}; accepted is name=size, as \"pp=2, tp=4\"")
            axes.append((name.strip(), int(size)))
        return tuple(axes)
    pairs = mesh.items() if hasattr(mesh, "items") else mesh
    return tuple((str(name), int(size)) for name, size in pairs)


class Plan:
    """What one process does to bring a tensor from one sharding to another.

    ``shape`` is that of the whole tensor; ``ranks`` take part, of which this is ``rank``. It sends ``sent`` bytes and
    receives ``received``, which it needs and does not have; ``kept`` bytes it copies. All ranks together receive ``traffic``
    bytes. All of it happens in ``rounds``, so that no process needs more memory for buffers than was allowed. Processes whose
    ``digest`` is equal have one plan.
    """

    def __init__(self, native, dtype, what, order=None):
        self._native, self.dtype, self._what = native, dtype, what
        # The process of the group that has each rank of the plan.
        self._order = order
        self._processes = {}
        self.digest = hashlib.sha256(native.digest + str(dtype).encode()).digest()
        self.traffic = native.traffic
        # What every call asks for, found once.
        self._old, self._new = native.shapes(False), native.shapes(True)
        self._said = _header(self.digest, what, False)

    shape = property(lambda self: tuple(self._native.shape))
    rank = functools.cached_property(lambda self: self._native.rank)
    ranks = functools.cached_property(lambda self: self._native.ranks)
    rounds = functools.cached_property(lambda self: self._native.rounds)
    sent = functools.cached_property(lambda self: self._native.sent)
    received = functools.cached_property(lambda self: self._native.received)
    kept = property(lambda self: self._native.kept)

    def certificate(self):
        """The plan of all ranks, checked element by element without the planner's code; elements, and how many times the least
        possible the busiest sender sends. For tensors of up to 2^27 places."""
        return self._native.certificate()

    def shard_shape(self, new=True):
        """The shape of the new shard of this rank, or of its old one; None where it holds nothing."""
        shapes = self._new if new else self._old
        return None if shapes is None else tuple(shapes[0])

    def __repr__(self):
        return (
            f"<{self._what}: rank {self.rank} of {self.ranks} sends {self.sent} bytes, receives {self.received}, "
            f"keeps {self.kept}, in {self.rounds} {'round' if self.rounds == 1 else 'rounds'}>"
        )

    def _peer(self, rank):
        return rank if self._order is None else self._order[rank]

    def _process(self, padded, slot):
        """The copies and rounds for shards in these forms; made once."""
        key = (*padded, slot)
        found = self._processes.get(key)
        if found is None:
            found = self._processes[key] = _Process(self, self._native.process(*padded), slot)
        return found


class _Process:
    """The rounds of a plan, made when they are needed."""

    def __init__(self, plan, native, slot):
        self.native, self._plan = native, plan
        # In several rounds nothing is short.
        self._slot = slot if plan.rounds == 1 else 0
        self._rounds = {}

    def round(self, index):
        found = self._rounds.get(index)
        if found is None:
            found = _Round(self._plan, self.native.round(index, self._slot, _HEADER))
            if len(self._rounds) < _KEPT_ROUNDS:
                self._rounds[index] = found
        return found


class _Round:
    def __init__(self, plan, native):
        self.native = native
        turned = lambda messages: [(k, plan._peer(p), n, kind, at) for k, (p, n, kind, at) in enumerate(messages)]
        sends, receives = turned(native.sends), turned(native.receives)
        # Everybody begins with the next one, so that not all send to one.
        own, size = plan._peer(plan.rank), max(plan.ranks, 1)
        sends.sort(key=lambda m: (m[1] - own) % size)
        receives.sort(key=lambda m: (own - m[1]) % size)
        self.sends = [m for m in sends if m[3] != _INLINE]
        self.receives = [m for m in receives if m[3] != _INLINE]
        self.inline_sends = [m for m in sends if m[3] == _INLINE]
        self.inline_receives = [m for m in receives if m[3] == _INLINE]
        self.staging = native.staging
        self.quiet = not (self.sends or self.receives)


class _Slots:
    """What processes tell each other first: a header for each of them, and short messages behind it."""

    def __init__(self, size, slot, device):
        self.going = torch.empty(size * slot, dtype=torch.uint8, device=device)
        self.coming = torch.empty_like(self.going)
        self._told = None
        self._key = (size, slot, device)

    def tell(self, header):
        if self._told != header:
            size, slot, device = self._key
            said = torch.frombuffer(bytearray(header), dtype=torch.uint8)
            self.going.view(size, slot)[:, :_HEADER] = said.to(device)
            self._told = header

    def agreed(self, header):
        """Whether every process has the same plan, and none refuses."""
        size, slot, device = self._key
        said = header[: _DIGEST + 1]
        if device.type == "cpu":
            return _native.slots_say(self.coming, slot, said)
        rows = self.coming.view(size, slot)[:, : len(said)].cpu()
        return bool((rows == torch.frombuffer(bytearray(said), dtype=torch.uint8)).all())

    def headers(self):
        size, slot, _ = self._key
        return [_read(row) for row in self.coming.view(size, slot)[:, :_HEADER].cpu()]

    @classmethod
    @contextlib.contextmanager
    def lent(cls, size, slot, device):
        """Those of an exchange before; they are given back when this one is complete."""
        kept = _slots.setdefault((size, slot, device), [])
        try:
            slots = kept.pop()
        except IndexError:
            slots = cls(size, slot, device)
        yield slots
        if not kept:
            kept.append(slots)


_slots: dict = {}
_plans: OrderedDict = OrderedDict()


def _cached(key, make):
    found = _plans.get(key)
    if found is None:
        found = _plans[key] = make()
        if len(_plans) > _KEPT_PLANS:
            _plans.popitem(last=False)
    return found


def _words(side):
    return side if isinstance(side, str) else getattr(side, "_whole", None) or str(side)


def _plan_of(src, dst, shape, dtype, rank, size, mesh, dst_mesh, memory, topology):
    if memory is not None and not (isinstance(memory, int) and memory > 0):
        raise ValueError(f"memory={memory!r}: bytes for buffers, more than 0, or None for as many as one round needs")
    src, dst = _dtensor.sides(src, mesh), _dtensor.sides(dst, mesh if dst_mesh is None else dst_mesh)
    on_devices = isinstance(src, _dtensor.Side), isinstance(dst, _dtensor.Side)
    axes = [None if on else _axes(m) for on, m in zip(on_devices, (mesh, mesh if dst_mesh is None else dst_mesh))]
    shape = shape if shape is None or type(shape) is torch.Size else tuple(int(n) for n in shape)
    key = (_words(src), _words(dst), *axes, shape, dtype, rank, size, memory, topology)
    if any(on_devices):
        key += tuple(side.ranks for side in (src, dst) if isinstance(side, _dtensor.Side))

    def make():
        options, order = {}, None
        if any(on_devices):
            numbers, order = _dtensor.numbers(src, dst, size)
            options = dict(src_numbers=numbers[0], dst_numbers=numbers[1], ranks=size)
        native = _native.ReshardPlan(
            src.text if on_devices[0] else src,
            dst.text if on_devices[1] else dst,
            dtype.itemsize,
            rank if order is None else order.index(rank),
            shape=shape,
            src_mesh=axes[0],
            dst_mesh=axes[1],
            memory=memory,
            topology=topology,
            **options,
        )
        if native.ranks != size:
            raise ValueError(
                f"the layouts are on {native.ranks} devices, and the group has {size} processes: "
                "give a group of as many processes, or the mesh of all of them"
            )
        name = lambda side: side.text if isinstance(side, _dtensor.Side) else str(side)
        what = f"{tuple(native.shape)} of {str(dtype).removeprefix('torch.')}, {name(src)} -> {name(dst)}"
        return Plan(native, dtype, what, order)

    return _cached(key, make)


def plan(src, dst, shape=None, dtype=torch.float32, *, rank=0, ranks=None, mesh=None, dst_mesh=None, memory=None, topology=None):
    """The plan of one rank, without a process group: what it would send, receive and keep.

    >>> zellige.distributed.plan("P('x', None)", "P(None, 'x')", (8, 8), mesh="x=4", ranks=4).received
    48

    Arguments are those of :func:`reshard`; ``ranks`` is the number of processes.
    """
    if ranks is None:
        own, other = _axes(mesh), _axes(mesh if dst_mesh is None else dst_mesh)
        if own is None or other is None:
            raise ValueError("ranks: give the number of processes, or a mesh that has it")
        count = lambda axes: torch.Size(n for _, n in axes).numel()
        ranks = max(count(own), count(other))
    return _plan_of(src, dst, shape, dtype, rank, ranks, mesh, dst_mesh, memory, topology)


def _form(what, tensor, shapes, rank):
    """Whether a shard is as long as the longest one; checks it."""
    if shapes is None:
        if tensor is not None and tensor.numel():
            raise ValueError(f"{what}: rank {rank} holds nothing there; give None or an empty tensor, not {tuple(tensor.shape)}")
        return False
    if tensor is None:
        raise ValueError(f"{what}: rank {rank} holds a shard of {tuple(shapes[0])}, and None is given")
    if not tensor.is_contiguous():
        raise ValueError(f"{what}: elements must be contiguous; this has strides {tuple(tensor.stride())}: call .contiguous()")
    shape = list(tensor.shape)
    if shape == shapes[0]:
        return len(shapes) == 1
    if shape in shapes[1:]:
        return True
    others = " or ".join(dict.fromkeys(str(tuple(s)) for s in shapes))
    raise ValueError(f"{what}: rank {rank} holds a shard of {others}, and {tuple(shape)} is given")


def _engine_reaches(device):
    """Whether the engine packs; otherwise PyTorch does, on the device."""
    return device.type in ("cpu", "spyre")


def _span(tensor):
    begin = tensor.data_ptr()
    return begin, begin + tensor.numel() * tensor.itemsize


class _Move:
    """One call on one process, everything checked and allocated."""

    def __init__(self, plan, local, out, size, device):
        self.plan, self.complaint, self.kept = plan, None, False
        native, old, new = plan._native, plan._old, plan._new
        if local is not None and local.dtype != plan.dtype:
            raise TypeError(f"local: {local.dtype}, and the plan is of {plan.dtype}")
        padded = _form("local", local, old, plan.rank)
        if out is not None:
            if out.dtype != plan.dtype:
                raise TypeError(f"out: {out.dtype}, and local is {plan.dtype}; a move keeps the dtype")
            if out.device != device:
                raise ValueError(f"out is on {out.device}, and local on {device}")
            padded_out = _form("out", out, new, plan.rank)
            if local is not None and local.numel() and out.numel():
                (a, b), (c, d) = _span(local), _span(out)
                if a < d and c < b:
                    raise ValueError("out shares memory with local: give another tensor, or none")
        else:
            padded_out = new is not None and len(new) == 1
        self.device, self.out, self.own = device, out, out is None
        if out is None:
            shape = (0,) if new is None else tuple(new[0])
            whole = new is None or native.fills(math.prod(shape))
            self.out = (torch.empty if whole else torch.zeros)(shape, dtype=plan.dtype, device=device)
            if whole and device.type == "cpu" and self.out.nbytes >= _HUGE:
                _native.is_new(self.out.view(torch.uint8))
        self.process = plan._process((padded, padded_out), _slot(size))
        empty = torch.empty(0, dtype=plan.dtype, device=device)
        self.host = _engine_reaches(device)
        self.given = empty if local is None else local.detach() if local.requires_grad else local
        self.target = self.out.detach() if self.out.requires_grad else self.out
        if device.type == "spyre":
            self.given, self.target = self.given.cpu(), self.target.cpu()
        nothing = torch.empty(0, dtype=torch.uint8, device=self.given.device)
        flat = lambda t: t.reshape(-1).view(torch.uint8) if t.numel() else nothing
        self.sent, self.arrived = flat(self.given), flat(self.target)
        # The engine moves bytes, PyTorch elements.
        self.source = self.sent if self.host else self.given.reshape(-1)
        self.result = self.arrived if self.host else self.target.reshape(-1)
        self.threads = torch.get_num_threads()
        self.first = self.process.round(0)
        self.buffers = self._staging(self.first)

    def _staging(self, round):
        if round.quiet:
            return ()
        place = "cpu" if self.host else self.device
        return [torch.empty(n, dtype=torch.uint8, device=place) for n in round.staging]

    def pack(self, round):
        if round.quiet:
            return
        send, _ = self.buffers
        if self.host:
            round.native.pack(self.source, send, self.threads, False)
            return
        for index, _, length, kind, at in round.sends:
            if kind == _BUFFER:
                into = send[at : at + length].view(self.plan.dtype)
                _pack.copy(round.native.pack_nests(index), self.source, into)

    def pack_slots(self, slots):
        if self.host:
            self.first.native.pack(self.source, slots, 1, True)
            return
        for index, _, length, _, at in self.first.inline_sends:
            into = slots[at : at + length].view(self.plan.dtype)
            _pack.copy(self.first.native.pack_nests(index), self.source, into)

    def unpack_slots(self, slots):
        if self.host:
            self.first.native.unpack_slots(slots, self.result)
            return
        for index, _, length, _, at in self.first.inline_receives:
            _pack.copy(self.first.native.unpack_nests(index), slots[at : at + length].view(self.plan.dtype), self.result)

    def unpack(self, round, index, length, at):
        receive = self.buffers[1]
        if self.host:
            round.native.unpack(index, receive, self.result, self.threads)
        else:
            _pack.copy(round.native.unpack_nests(index), receive[at : at + length].view(self.plan.dtype), self.result)

    def keep(self):
        """Copies what the process has and needs, once."""
        if self.kept:
            return
        self.kept = True
        if self.host:
            self.process.native.keep(self.source, self.result, self.threads)
        else:
            _pack.copy(self.process.native.kept_nests(), self.source, self.result)

    def run(self, wire, deadline, progress):
        """The rounds, once all processes have agreed."""
        total, done = self.plan.sent + self.plan.received, 0
        for index in range(self.plan.rounds):
            round = self.first if index == 0 else self.process.round(index)
            if index > 0:
                if not self.buffers or any(n > b.numel() for n, b in zip(round.staging, self.buffers)):
                    self.buffers = self._staging(round)
                self.pack(round)
            if round.quiet:
                self.keep()
                done = self._tell(progress, done, total, round, index)
                continue
            send, receive = self.buffers
            place = lambda messages, shard, buffer: [
                ((shard if kind == _SHARD else buffer)[at : at + length], peer) for _, peer, length, kind, at in messages
            ]
            going_out = place(round.sends, self.sent, send)
            coming_in = place(round.receives, self.arrived, receive)
            coming, going = wire.exchange(going_out, coming_in)
            self.keep()
            if coming and coming[0] is None:
                for work in going:
                    deadline.wait(work)
                going = []
            for (message, _, length, kind, at), work in zip(round.receives, coming):
                deadline.wait(work)
                if kind == _BUFFER:
                    self.unpack(round, message, length, at)
            for work in going:
                deadline.wait(work)
            done = self._tell(progress, done, total, round, index)

    def _tell(self, progress, done, total, round, index):
        """Tells how far it has come, and gives that."""
        if progress is None or self.complaint is not None:
            return done
        done += sum(m[2] for m in round.sends) + sum(m[2] for m in round.receives)
        try:
            progress(done if index + 1 < self.plan.rounds else total, total)
        except Exception as error:
            # The others wait for this process, so it continues to the end and raises then.
            self.complaint = error
        return done

    def finish(self):
        if self.target is not self.out and self.device.type == "spyre":
            self.out.copy_(self.target)
        return self.out


def _header(digest, text, failed):
    words = text.encode()[: _HEADER - _DIGEST - 1]
    return (digest + bytes([1 if failed else 0]) + words).ljust(_HEADER, b"\0")


def _read(row):
    raw = bytes(row[:_HEADER].tolist())
    return raw[:_DIGEST], raw[_DIGEST] != 0, raw[_DIGEST + 1 :].rstrip(b"\0").decode(errors="replace")


def _agree(found):
    """Raises where a process refused, or has another plan."""
    failed = [f"rank {rank}: {text}" for rank, (_, bad, text) in enumerate(found) if bad]
    if failed:
        raise ReshardError("refused by " + "; ".join(failed))
    kinds = OrderedDict()
    for rank, (digest, _, text) in enumerate(found):
        kinds.setdefault(digest, (text, []))[1].append(rank)
    if len(kinds) > 1:
        plans = "; ".join(
            f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}: {text}" for text, ranks in kinds.values()
        )
        raise ReshardError(f"the processes have different plans, and nothing was sent. {plans}")


class _Bar:
    """Progress on the standard error of the first process."""

    def __init__(self, rank):
        self._on = rank == 0

    def __call__(self, done, total):
        if not self._on:
            return
        part = done / total if total else 1.0
        filled = int(part * 30)
        end = "\n" if done >= total else ""
        text = f"\rreshard [{'#' * filled}{'.' * (30 - filled)}] {done / 1e6:.1f} of {total / 1e6:.1f} MB{end}"
        print(text, end="", file=sys.stderr, flush=True)


@torch.compiler.disable
def reshard(
    local,
    src,
    dst,
    group=None,
    out=None,
    *,
    shape=None,
    mesh=None,
    dst_mesh=None,
    dtype=None,
    memory=None,
    timeout=None,
    progress=None,
    topology=None,
):
    """The shard of this process under another sharding. Every process of the group calls it.

    ``reshard(local, src, dst)`` takes the old shard and gives the new one. ``src`` and ``dst`` are layouts of one tensor over
    devices: a :class:`zellige.Layout` or a text in any notation that has devices, such as

    - ``"(Shard(0), Replicate()) mesh=[2, 4] shape=[8, 16]"``, ``"S[(4, 2, 8):(1@x, 8, 1)]"``;
    - ``"P('tp', None)"``, ``"(Shard(0),)"``, ``"flat"``, ``"whole"``, ``"P('tp') at pp=0"`` on a ``mesh``, which is a text as
      ``"pp=2, tp=4"``, a dict, or pairs of names and sizes; ``dst_mesh`` where the new one is another;
    - lists of DTensor placements on a ``DeviceMesh``.

    ``shape`` is that of the whole tensor, where the layouts do not say it. Devices are the processes of ``group``, the last
    axis of a mesh fastest. A shard is a contiguous tensor of the extents that the rank has (uneven ones are short, as
    ``torch.chunk`` cuts them), or of those of the longest shard; where it is no box of the tensor, the memory of the layout as
    one row. A process that holds nothing gives None, and ``dtype``, and gets an empty tensor.

    ``reshard(dtensor, mesh, placements)`` takes a DTensor and gives a DTensor, also on another mesh: every process of the
    group calls it, as with DTensor itself. ``Partial`` is reduced first.

    - ``out``: the tensor to write, apart from ``local``; padding in it is left as it is. A new one has zeros there.
    - ``memory``: bytes of buffers that no process exceeds. The exchange then happens in several rounds.
    - ``timeout``: seconds, or a ``timedelta``; without it that of the group counts.
    - ``progress``: True for a bar on the first process, or a function of the bytes so far and in all, called after each round.
    - ``topology``: links between ranks, in the TOML of docs/reshard.md; chooses senders among copies.

    Before anything is sent, processes compare a hash of the plan. Where one refuses its arguments, or has another plan, all of
    them raise and nothing was sent: :class:`ReshardError`, or the refusal itself on the process that refused. If a process is
    lost on the way, those that wait for it raise, and ``out`` and the group are to be given up. What ``progress`` raises is raised
    when the exchange is complete.

    CPU tensors go by gloo and are packed by the engine; CUDA tensors by NCCL, packed on the device; tensors of the device
    "spyre" by spyreccl. The result has no gradient.
    """
    if _dtensor.is_dtensor(local):
        return _dtensor.reshard(local, src, dst, group, out, memory=memory, timeout=timeout, progress=progress, topology=topology)
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError("there are no processes to exchange with: call torch.distributed.init_process_group first")
    group = dist.group.WORLD if group is None else group
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError("this process is not in the group")

    def find(dtype, rank, size):
        return _plan_of(src, dst, shape, dtype, rank, size, mesh, dst_mesh, memory, topology)

    return _run(local, out, group, dtype, find, timeout, progress)


def _run(local, out, group, dtype, find, timeout, progress, silent=False):
    """Carries out the plan that ``find`` gives for a dtype, a rank and a number of processes. With ``silent``, one without traffic is
    carried out without asking the others: all of them have it."""
    rank, size = group.rank(), group.size()
    refused = move = made = None
    device = next((t.device for t in (local, out) if isinstance(t, torch.Tensor)), _CPU)
    deadline = Deadline(None)
    try:
        deadline = Deadline(timeout)
        for what, tensor in (("local", local), ("out", out)):
            if tensor is not None and not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{what}: a tensor or None, not {type(tensor).__name__}")
        if dtype is None:
            dtype = next((t.dtype for t in (local, out) if t is not None), None)
            if dtype is None:
                raise ValueError("dtype: that of the tensor, where this process gives neither local nor out")
        made = find(dtype, rank, size)
        silent = silent and made.traffic == 0
        move = _Move(made, local, out, size, device)
        bar = _Bar(rank) if progress is True else progress or None
        header = made._said
    except Exception as error:
        if silent is True and made is not None:
            raise
        move, refused, header = None, error, _header(bytes(_DIGEST), f"{type(error).__name__}: {error}", True)
    if silent and move is not None:
        move.keep()
        return move.finish()
    wire, slot = wire_of(group, device), _slot(size)
    try:
        with _Slots.lent(size, slot, wire.device) as slots:
            slots.tell(header)
            if move is not None:
                _exchange(move, slots, wire, deadline, bar, header)
            else:
                deadline.wait(wire.swap(slots.coming, slots.going))
                raise refused
    except ReshardError:
        raise
    except Exception as error:
        if error is refused:
            raise
        raise _lost(error, rank, deadline) from error
    if move.complaint is not None:
        raise move.complaint
    return move.finish()


def _exchange(move, slots, wire, deadline, bar, header):
    """Asks all processes for their plans, sends what is short with that, and then the rest."""
    order, going, coming = move.plan._order, slots.going, slots.coming
    move.pack_slots(going)
    if order is not None:
        # Slots are by rank of the plan, and travel by process of the group.
        order = torch.tensor(order, device=wire.device)
        rows = going.view(len(order), -1)
        going = torch.empty_like(rows)
        going[order] = rows
        going = going.view(-1)
    work = wire.swap(coming, going)
    move.pack(move.first)
    if move.own:
        # Nobody sees a result before all agree.
        move.keep()
    deadline.wait(work)
    if not slots.agreed(header):
        _agree(slots.headers())
    move.unpack_slots(coming if order is None else coming.view(len(order), -1)[order].reshape(-1))
    move.run(wire, deadline, bar)


def _lost(error, rank, deadline):
    text = str(error).strip().splitlines()
    waited = f" within {deadline.given.total_seconds():g} s" if deadline.given is not None else ""
    return ReshardError(
        f"rank {rank} could not exchange with the others{waited}: a process is gone, or did not call reshard. "
        f"The result is incomplete and the group is to be given up ({text[0] if text else type(error).__name__})"
    )
