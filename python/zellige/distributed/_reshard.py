"""Moving a tensor between shardings over the processes of a group: ``reshard``, and ``plan`` without a group."""

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

# Before anything else, every process sends one slot of a fixed size to every other process. A slot begins with a header of
# _HEADER bytes: the digest of the plan, a byte that is 1 where the process refuses, and the plan or the refusal as text. A
# message that fits behind the header travels in the slot, which saves the latency of a second transfer.
_HEADER = 320
# Bytes of a slot in groups of at most _MANY processes, and in larger ones, where the slots of all peers would add up: 64 slots
# of 8192 bytes are 512 KiB.
_SLOT = 8192
_SHORT_SLOT = 512
_MANY = 64
# Bytes of a SHA-256 digest.
_DIGEST = 32
# Where the bytes of a message are, in the numbers of `MessageTransport` of `python/src/reshard.rs`: in a staging buffer, in the
# shard itself (if they are contiguous there), or behind the header of a slot.
_BUFFER, _SHARD, _INLINE = 0, 1, 2

# The number of plans in the cache.
_KEPT_PLANS = 256
# Bytes of a result from which on huge pages are requested. The library ignores the request for less, because only memory of
# this length contains a whole huge page wherever it begins (`MIN_ADVISED_BYTES` of `crates/host/src/pages.rs`).
_HUGE = 1 << 22
_CPU = torch.device("cpu")
# Rounds of a plan that are kept for later calls; the rounds after them are made again in every call.
_KEPT_ROUNDS = 32


def _slot(size):
    return _SLOT if size <= _MANY else _SHORT_SLOT


def _axes(mesh):
    """The axes of a mesh as pairs of a name and a size; the axis along which ranks change slowest comes first."""
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
    """The part of one process in moving a tensor from one sharding to another.

    ``shape`` is the shape of the whole tensor, ``ranks`` the number of processes and ``rank`` the number of this one. The
    process sends ``sent`` bytes, receives the ``received`` bytes that its new shard needs and its old one does not have, and
    copies ``kept`` bytes from its old shard. All ranks together receive ``traffic`` bytes. The plan has ``rounds`` rounds, as
    many as are needed to keep the buffers of every process within ``memory``. Two processes have the same plan exactly if
    their ``digest`` is equal.
    """

    def __init__(self, native, dtype, what, order=None):
        self._native, self.dtype, self._what = native, dtype, what
        # For each rank of the plan, the number of its process in the group; None where both numbers are equal.
        self._order = order
        self._processes = {}
        self.digest = hashlib.sha256(native.digest + str(dtype).encode()).digest()
        self.traffic = native.traffic
        # Every call needs these, so they are computed once.
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
        """Checks the plan of all ranks element by element, without the planner's code, and raises if it is wrong.

        The result counts the elements that each rank sends and receives; ``sender_factor`` is what the busiest sender sends,
        as a multiple of the lower bound. Tensors of more than 2^27 elements or addresses, copies counted, are refused."""
        return self._native.certificate()

    def shard_shape(self, new=True):
        """The shape of this rank's new shard, or with ``new=False`` of its old one; None if the rank holds no elements there."""
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
        """The copies and rounds for shards that are padded or not (old shard, new shard); cached."""
        key = (*padded, slot)
        found = self._processes.get(key)
        if found is None:
            found = self._processes[key] = _Process(self, self._native.process(*padded), slot)
        return found


class _Process:
    """The rounds of a plan. A round is planned at its first use."""

    def __init__(self, plan, native, slot):
        self.native, self._plan = native, plan
        # Slots are exchanged once, before the first round, so a plan of several rounds sends no message in a slot.
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
    """The messages of one round, each as (index in the native round, peer process, bytes, transport, first byte there)."""

    def __init__(self, plan, native):
        self.native = native
        numbered = lambda messages: [(k, plan._peer(p), n, kind, at) for k, (p, n, kind, at) in enumerate(messages)]
        sends, receives = numbered(native.sends), numbered(native.receives)
        # Every process sends to its successor first and receives from its predecessor first. In the order of ranks, all of
        # them would send to process 0 at the same time.
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
    """The two buffers of the first exchange: a slot for every process to send, and a slot from every process."""

    def __init__(self, size, slot, device):
        self.going = torch.empty(size * slot, dtype=torch.uint8, device=device)
        self.coming = torch.empty_like(self.going)
        self._told = None
        self._key = (size, slot, device)

    def tell(self, header):
        """Writes the header into every slot to send; the buffers often have it from the exchange before."""
        if self._told != header:
            size, slot, device = self._key
            header_bytes = torch.frombuffer(bytearray(header), dtype=torch.uint8)
            self.going.view(size, slot)[:, :_HEADER] = header_bytes.to(device)
            self._told = header

    def agreed(self, header):
        """Whether every process sent the digest of the same plan, and none refused."""
        size, slot, device = self._key
        expected = header[: _DIGEST + 1]
        if device.type == "cpu":
            return _native.slots_say(self.coming, slot, expected)
        rows = self.coming.view(size, slot)[:, : len(expected)].cpu()
        return bool((rows == torch.frombuffer(bytearray(expected), dtype=torch.uint8)).all())

    def headers(self):
        size, slot, _ = self._key
        return [_read(row) for row in self.coming.view(size, slot)[:, :_HEADER].cpu()]

    @classmethod
    @contextlib.contextmanager
    def lent(cls, size, slot, device):
        """Buffers of an earlier exchange, or new ones. They can be used again only if this exchange completes: after an error,
        a late message might still be written into them."""
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
    """The text of a side in the key of the plan cache: the complete text of a layout where it has one, else its ``str``."""
    return side if isinstance(side, str) else getattr(side, "_whole", None) or str(side)


def _plan_of(src, dst, shape, dtype, rank, size, mesh, dst_mesh, memory, topology):
    if memory is not None and not (isinstance(memory, int) and memory > 0):
        raise ValueError(f"memory={memory!r}: give bytes for buffers, more than 0, or None for one round without a limit")
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
                "give a group with one process per device, or a mesh of all processes"
            )
        name = lambda side: side.text if isinstance(side, _dtensor.Side) else str(side)
        what = f"{tuple(native.shape)} of {str(dtype).removeprefix('torch.')}, {name(src)} -> {name(dst)}"
        return Plan(native, dtype, what, order)

    return _cached(key, make)


def plan(src, dst, shape=None, dtype=torch.float32, *, rank=0, ranks=None, mesh=None, dst_mesh=None, memory=None, topology=None):
    """The plan of one rank, made without a process group: the bytes that the rank would send, receive and keep.

    >>> zellige.distributed.plan("P('x', None)", "P(None, 'x')", (8, 8), mesh="x=4", ranks=4).received
    48

    The arguments are those of :func:`reshard`; ``ranks`` is the number of processes, by default that of the larger mesh.
    """
    if ranks is None:
        own, other = _axes(mesh), _axes(mesh if dst_mesh is None else dst_mesh)
        if own is None or other is None:
            raise ValueError("ranks: give the number of processes, or a mesh with names and sizes")
        count = lambda axes: torch.Size(n for _, n in axes).numel()
        ranks = max(count(own), count(other))
    return _plan_of(src, dst, shape, dtype, rank, ranks, mesh, dst_mesh, memory, topology)


def _form(what, tensor, shapes, rank):
    """Checks the shape of a shard; returns whether the shard is padded to the longest shard, or is the memory of the layout as
    one row. ``shapes`` are the accepted shapes, the shape without padding first; None where the rank holds nothing."""
    if shapes is None:
        if tensor is not None and tensor.numel():
            given = tuple(tensor.shape)
            raise ValueError(f"{what}: rank {rank} holds no elements of this sharding; give None or an empty tensor, not {given}")
        return False
    if tensor is None:
        raise ValueError(f"{what}: rank {rank} holds a shard of {tuple(shapes[0])}, and None is given")
    if not tensor.is_contiguous():
        raise ValueError(f"{what}: the tensor must be contiguous and has the strides {tuple(tensor.stride())}: call .contiguous()")
    shape = list(tensor.shape)
    if shape == shapes[0]:
        return len(shapes) == 1
    if shape in shapes[1:]:
        return True
    others = " or ".join(dict.fromkeys(str(tuple(s)) for s in shapes))
    raise ValueError(f"{what}: rank {rank} holds a shard of {others}, and {tuple(shape)} is given")


def _engine_reaches(device):
    """Whether the engine packs messages of this device, in host memory. On other devices PyTorch packs them, on the device."""
    return device.type in ("cpu", "spyre")


def _span(tensor):
    """The addresses of the first byte of a contiguous tensor and of the byte after its last."""
    begin = tensor.data_ptr()
    return begin, begin + tensor.numel() * tensor.itemsize


class _Move:
    """One call on one process. The constructor checks the arguments and allocates the result and the buffers, so that a refusal
    happens before the first exchange."""

    def __init__(self, plan, local, out, size, device):
        self.plan, self.complaint, self.kept = plan, None, False
        native, old, new = plan._native, plan._old, plan._new
        if local is not None and local.dtype != plan.dtype:
            raise TypeError(f"local has the dtype {local.dtype}, and the plan is for {plan.dtype}")
        padded = _form("local", local, old, plan.rank)
        if out is not None:
            if out.dtype != plan.dtype:
                raise TypeError(f"out has the dtype {out.dtype}, and local has {plan.dtype}; a move keeps the dtype")
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
            # Padding of a new result is zero, so only a result without padding may be allocated without zeros.
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
        # The engine packs bytes; PyTorch packs elements.
        self.source = self.sent if self.host else self.given.reshape(-1)
        self.result = self.arrived if self.host else self.target.reshape(-1)
        self.threads = torch.get_num_threads()
        self.first = self.process.round(0)
        self.buffers = self._staging(self.first)

    def _staging(self, round):
        if round.quiet:
            return ()
        device = "cpu" if self.host else self.device
        return [torch.empty(n, dtype=torch.uint8, device=device) for n in round.staging]

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
        """Copies the elements that both shards of this process have. Only the first call copies."""
        if self.kept:
            return
        self.kept = True
        if self.host:
            self.process.native.keep(self.source, self.result, self.threads)
        else:
            _pack.copy(self.process.native.kept_nests(), self.source, self.result)

    def run(self, wire, deadline, progress):
        """Runs the rounds. All processes have agreed on the plan before."""
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
            slices = lambda messages, shard, buffer: [
                ((shard if kind == _SHARD else buffer)[at : at + length], peer) for _, peer, length, kind, at in messages
            ]
            going_out = slices(round.sends, self.sent, send)
            coming_in = slices(round.receives, self.arrived, receive)
            coming, going = wire.exchange(going_out, coming_in)
            # Local elements are copied while messages travel.
            self.keep()
            # `CudaWire` has no handle for a single receive: the handles in `going` cover all messages of the round.
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
        """Adds the bytes of a round to ``done``, calls ``progress`` with the sum, and returns it."""
        if progress is None or self.complaint is not None:
            return done
        done += sum(m[2] for m in round.sends) + sum(m[2] for m in round.receives)
        try:
            progress(done if index + 1 < self.plan.rounds else total, total)
        except Exception as error:
            # The other processes wait for this one, so it completes the exchange and raises afterwards.
            self.complaint = error
        return done

    def finish(self):
        """The result. The engine wrote the result of a "spyre" tensor to host memory; it is uploaded here."""
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
    """Raises if a process refused, or if not all processes have the same plan."""
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
        raise ReshardError(f"the processes have different plans, so nothing was written. {plans}")


class _Bar:
    """A progress bar on the standard error of the first process."""

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
    """Returns the shard of this process under another sharding. Every process of the group must call it.

    ``reshard(local, src, dst)`` takes the old shard and returns the new one. ``src`` and ``dst`` are layouts of one tensor over
    devices: a :class:`zellige.Layout`, or a text in any notation with device axes, such as

    - ``"(Shard(0), Replicate()) mesh=[2, 4] shape=[8, 16]"``, ``"S[(4, 2, 8):(1@x, 8, 1)]"``;
    - ``"P('tp', None)"``, ``"(Shard(0),)"``, ``"flat"``, ``"whole"``, ``"P('tp') at pp=0"`` on a ``mesh``, which is a text such
      as ``"pp=2, tp=4"``, a dict, or pairs of a name and a size; ``dst_mesh`` is the mesh of ``dst`` where it differs;
    - lists of DTensor placements on a ``DeviceMesh``.

    ``shape`` is the shape of the whole tensor; it may be left out if one of the layouts contains it. The devices are the
    processes of ``group``, numbered with the last axis of the mesh fastest. A shard is a contiguous tensor. It has the extents
    of the rank's part (with an uneven division the last parts are shorter, as with ``torch.chunk``), or is padded to the extents
    of the longest shard; where the part is not a box of the tensor, the shard is the memory of the layout as one row. A process
    that holds no elements passes None and ``dtype``, and gets an empty tensor if it needs none.

    ``reshard(dtensor, mesh, placements)`` takes a DTensor and returns a DTensor, on the same mesh or on another. Every process
    of the group must call it, as with DTensor itself. ``Partial`` is reduced first.

    - ``out``: the tensor to write, which must not share memory with ``local``; its padding is not written. Without ``out`` the
      result is a new tensor, whose padding is zero.
    - ``memory``: the most bytes of buffers that a process may use. A smaller number means more rounds.
    - ``timeout``: seconds, or a ``timedelta``; by default the timeout of the group.
    - ``progress``: True for a bar on the first process, or a function that is called after each round with the bytes moved so
      far and the bytes in all.
    - ``topology``: the links between ranks, in the TOML of docs/reshard.md. Where several ranks hold an element, the load of the
      links decides which of them sends it.

    Processes first compare a hash of the plan, and write no result before. If one of them refuses its arguments or has another
    plan, all of them raise: the process that refused raises its own error, the others :class:`ReshardError`. If a process
    disappears during the exchange, those that wait for it raise; ``out`` is then incomplete and the group cannot be used any
    more. An exception of ``progress`` is raised after the exchange.

    gloo carries CPU tensors, which the engine packs; NCCL carries CUDA tensors, which PyTorch packs on the device; spyreccl
    carries tensors of the device "spyre". The result has no gradient.
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
    """Carries out the plan that ``find`` returns for a dtype, a rank and a number of processes.

    With ``silent``, a plan without traffic is carried out without the first exchange: every process derives the same plan from the
    same DTensor, so none of them waits for a header."""
    rank, size = group.rank(), group.size()
    refused = move = made = None
    device = next((t.device for t in (local, out) if isinstance(t, torch.Tensor)), _CPU)
    deadline = Deadline(None)
    try:
        deadline = Deadline(timeout)
        for what, tensor in (("local", local), ("out", out)):
            if tensor is not None and not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{what} must be a tensor or None, not {type(tensor).__name__}")
        if dtype is None:
            dtype = next((t.dtype for t in (local, out) if t is not None), None)
            if dtype is None:
                raise ValueError("dtype is required where neither local nor out is a tensor: give the dtype of the whole tensor")
        made = find(dtype, rank, size)
        silent = silent and made.traffic == 0
        move = _Move(made, local, out, size, device)
        bar = _Bar(rank) if progress is True else progress or None
        header = made._said
    except Exception as error:
        # The others do not exchange headers, so there is nobody to send the refusal to.
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
    """Exchanges the slots, checks that all processes have the same plan, and then runs the rounds."""
    order, going, coming = move.plan._order, slots.going, slots.coming
    move.pack_slots(going)
    if order is not None:
        # Slots are packed in the order of ranks of the plan, and sent in the order of processes of the group.
        order = torch.tensor(order, device=wire.device)
        rows = going.view(len(order), -1)
        going = torch.empty_like(rows)
        going[order] = rows
        going = going.view(-1)
    work = wire.swap(coming, going)
    move.pack(move.first)
    if move.own:
        # The caller has not seen a new result yet, so it may be written before all agree, unlike a given `out`.
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
        f"The result is incomplete and the group can no longer be used ({text[0] if text else type(error).__name__})"
    )
