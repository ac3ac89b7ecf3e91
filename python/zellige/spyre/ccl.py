"""``spyreccl``: collectives of tensors on the device, between processes that have cards of their own.

``torch.distributed.init_process_group("spyreccl")`` makes a group of it. Gloo carries the elements; what the cards would
take is charged by :mod:`.exchange`.
"""

from __future__ import annotations

import threading
from datetime import timedelta

import torch
import torch.distributed as dist

from . import exchange
from .exchange import Call, Heard

# Bytes up to which an all-reduce sends everything to everybody: one message more costs more.
_SMALL = 1 << 16


class _Done(dist._Work if hasattr(dist, "_Work") else object):
    """A handle of work that is complete when it is returned."""

    def __init__(self, result):
        super().__init__()
        self._result = result
        self._future = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def is_success(self):
        return True

    def result(self):
        return self._result

    def get_future(self):
        return self._future


class _Later(dist._Work if hasattr(dist, "_Work") else object):
    """A handle of a message; ``finish`` waits for it, once."""

    def __init__(self, tensors, finish):
        super().__init__()
        self._tensors, self._finish = tensors, finish

    def wait(self, timeout=None):
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self):
        return self._finish is None

    def is_success(self):
        return self._finish is None

    def result(self):
        self.wait()
        return self._tensors

    def get_future(self):
        self.wait()
        future = torch.futures.Future()
        future.set_result(self._tensors)
        return future


class _Receiver(threading.Thread):
    """Takes a message while its process does something else, so that processes may send to each other at once.
    Messages of one sender are taken one after the other."""

    def __init__(self, after: _Receiver | None, take):
        super().__init__(daemon=True)
        self._after, self._take = after, take
        self._made = self._error = None
        self.start()

    def run(self):
        try:
            if self._after is not None:
                self._after.join()
                self._after = None
            self._made = self._take()
        except BaseException as error:
            self._error = error

    def message(self):
        """What came; raises what went wrong."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._made


def _why(error: BaseException, seconds: float) -> str:
    """What gloo's error means."""
    text = str(error).strip().splitlines()
    said = text[0] if text else type(error).__name__
    low = said.lower()
    if "timed out" in low or "timeout" in low:
        return f"another process did not come within {seconds:g} s (gloo: {said})"
    if any(word in low for word in ("closed", "reset", "broken pipe", "refused", "connect")):
        return f"another process of the group ended, or left it (gloo: {said})"
    return f"gloo: {said}"


def _class():
    from torch._C import _distributed_c10d as c10d

    class SpyreCCL(c10d.Backend):
        """Collectives: processes agree, elements go down, gloo carries them, results go up, the cards are charged."""

        # The properties of the base class call the Python override, which would recurse without end.
        supports_splitting = False
        supports_coalescing = False
        supports_time_estimate = False
        supports_shrinking = False

        def __init__(self, store, rank, size, timeout):
            super().__init__(rank, size)
            self._timeout = timeout
            self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
            self._calls = 0
            self._receivers: dict = {}

        def getBackendName(self):
            return "spyreccl"

        def _set_default_timeout(self, timeout):
            self._timeout = timeout
            self._gloo._set_default_timeout(timeout)

        # How bytes travel.

        def _carry(self, what, options, send):
            """Lets gloo do something; its errors say what it was about."""
            given = getattr(options, "timeout", None)
            asked = given if given is not None and given > timedelta(0) else self._timeout
            try:
                return send(asked).wait()
            except RuntimeError as error:
                raise dist.DistBackendError(
                    f"spyreccl: {what} on rank {self.rank()} of {self.size()}: {_why(error, asked.total_seconds())}"
                ) from error

        def _options(self, kind, timeout, **fields):
            options = kind()
            options.timeout = timeout
            for name, value in fields.items():
                setattr(options, name, value)
            return options

        def _to_all(self, what, flat, options=None):
            """What every process gives; all give the same number of elements."""
            if not flat.numel():
                return [flat] * self.size()
            parts = [torch.empty_like(flat) for _ in range(self.size())]
            bytes_of = [[p.view(torch.uint8) for p in parts]], [flat.view(torch.uint8)]
            self._carry(what, options, lambda t: self._gloo.allgather(*bytes_of, self._options(c10d.AllgatherOptions, t)))
            return parts

        def _to_each(self, what, parts, sizes, options=None):
            """What every process has for this one; ``sizes`` are the elements of each."""
            given = torch.cat(parts) if len(parts) > 1 else parts[0].contiguous()
            width = given.element_size()
            taken = torch.empty(sum(sizes), dtype=given.dtype)
            splits = [n * width for n in sizes], [p.numel() * width for p in parts]
            both = taken.view(torch.uint8), given.view(torch.uint8)
            self._carry(what, options, lambda t: self._gloo.alltoall_base(*both, *splits, self._options(c10d.AllToAllOptions, t)))
            return list(taken.split(sizes))

        def _agree(self, call: Call, options=None) -> list[Heard]:
            """Tells the other processes what this one asks for, and hears what they do."""
            self._calls += 1
            headers = self._to_all(call.kind, call.header(self._calls), options)
            heard = [Heard(h.tolist(), self.size()) for h in headers]
            exchange.check(heard)
            return heard

        def _done(self, call: Call, heard: list[Heard], result):
            exchange.account(call, self.size(), max(h.bytes for h in heard), max(h.clock for h in heard))
            return _Done(result)

        def _call(self, kind, tensor, given, taken, part, **fields) -> Call:
            """``part`` is the number of elements that the cost is about."""
            return Call(kind, tensor.device.index, tensor, given, taken, part * exchange.element_bytes(tensor.dtype), **fields)

        def _all(self, n):
            return [n] * self.size()

        def _only(self, rank, n):
            return [n if r == rank else 0 for r in range(self.size())]

        def _how(self, options, tensor):
            name = exchange.reduction(options.reduceOp)
            exchange.check_reduction(name, tensor.dtype)
            # `factor` is there for PREMUL_SUM alone.
            return name, options.reduceOp.factor if name == "PREMUL_SUM" else None

        # Collectives.

        def allreduce(self, tensors, opts=None):
            opts = opts or c10d.AllreduceOptions()
            for tensor in tensors:
                name, factor = self._how(opts, tensor)
                n = tensor.numel()
                call = self._call("all_reduce", tensor, self._all(n), self._all(n), n, reduction=name)
                heard = self._agree(call, opts)
                if n:
                    exchange.up(tensor, self._sum(call, exchange.down(tensor), name, factor, opts))
                self._done(call, heard, [tensor])
            return _Done(tensors)

        def _sum(self, call, flat, name, factor, opts):
            """The reduction of what all processes have. Each adds up one part, where that is less to send."""
            if flat.nbytes <= _SMALL:
                return exchange.reduced(name, self._to_all(call.kind, flat, opts), factor)
            share = -(-flat.numel() // self.size())
            padded = torch.nn.functional.pad(flat, (0, share * self.size() - flat.numel()))
            own = self._to_each(call.kind, list(padded.split(share)), self._all(share), opts)
            parts = self._to_all(call.kind, exchange.reduced(name, own, factor), opts)
            return torch.cat(parts)[: flat.numel()]

        def allreduce_coalesced(self, tensors, opts=None):
            given = opts or c10d.AllreduceCoalescedOptions()
            options = c10d.AllreduceOptions()
            options.reduceOp = given.reduceOp
            return self.allreduce(tensors, options)

        def reduce(self, tensors, opts=None):
            opts = opts or c10d.ReduceOptions()
            (tensor,) = tensors
            (name, factor), root, n = self._how(opts, tensor), opts.rootRank, tensor.numel()
            is_root = self.rank() == root
            taken = self._all(n if is_root else 0)
            call = self._call("reduce", tensor, self._only(root, n), taken, n, reduction=name, root=root)
            heard = self._agree(call, opts)
            flat = exchange.down(tensor)
            parts = [flat if r == root else flat[:0] for r in range(self.size())]
            got = self._to_each("reduce", parts, taken, opts)
            if is_root and n:
                exchange.up(tensor, exchange.reduced(name, got, factor))
            return self._done(call, heard, tensors)

        def broadcast(self, tensors, opts=None):
            opts = opts or c10d.BroadcastOptions()
            (tensor,) = tensors
            root, n = opts.rootRank, tensor.numel()
            given = self._all(n if self.rank() == root else 0)
            call = self._call("broadcast", tensor, given, self._only(root, n), n, root=root)
            heard = self._agree(call, opts)
            if n:
                flat = exchange.down(tensor)
                sent = [flat.view(torch.uint8)]
                self._carry("broadcast", opts, lambda t: self._gloo.broadcast(sent, self._options(c10d.BroadcastOptions, t, rootRank=root)))
                if self.rank() != root:
                    exchange.up(tensor, flat)
            return self._done(call, heard, tensors)

        def barrier(self, opts=None):
            call = Call("barrier", torch.spyre.current_device(), None, self._all(0), self._all(0))
            return self._done(call, self._agree(call, opts), [])

        def _gathered(self, tensor, sizes, opts):
            """What all processes have, of these numbers of elements; and what is to be done at the end."""
            n = tensor.numel()
            call = self._call("all_gather", tensor, self._all(n), sizes, max(n, *sizes))
            heard = self._agree(call, opts)
            most = max(sizes)
            flat = torch.nn.functional.pad(exchange.down(tensor), (0, most - n)) if n < most else exchange.down(tensor)
            parts = self._to_all("all_gather", flat, opts)
            return [p[:size] for p, size in zip(parts, sizes)], lambda result: self._done(call, heard, result)

        def allgather(self, outputs, inputs, opts=None):
            for wanted, tensor in zip(outputs, inputs):
                parts, done = self._gathered(tensor, [w.numel() for w in wanted], opts)
                for output, part in zip(wanted, parts):
                    exchange.up(output, part)
                done(wanted)
            return _Done(outputs)

        def allgather_coalesced(self, outputs, inputs, opts=None):
            for i, tensor in enumerate(inputs):
                self.allgather([[of[i] for of in outputs]], [tensor], opts)
            return _Done(outputs)

        def _allgather_base(self, output, input, opts=None):
            """Concatenates one tensor of each process."""
            self._divides(output, input, "all_gather_into_tensor: the output")
            parts, done = self._gathered(input, self._all(output.numel() // self.size()), opts)
            exchange.up(output, torch.cat(parts))
            return done([output])

        def _divides(self, whole, part, what):
            if whole.numel() != part.numel() * self.size() or whole.dtype != part.dtype:
                raise ValueError(
                    f"spyreccl: {what} has {list(whole.shape)} of {whole.dtype}, and {self.size()} parts of "
                    f"{list(part.shape)} of {part.dtype} do not make it"
                )

        all_gather_single = _allgather_base

        def all_gather_single_coalesced(self, outputs, inputs, opts=None):
            for output, input in zip(outputs, inputs):
                self._allgather_base(output, input, opts)
            return _Done(outputs)

        allgather_into_tensor_coalesced = all_gather_single_coalesced

        def _scattered(self, output, parts, tensor, opts):
            """This process's part of the reduction over all processes."""
            opts = opts or c10d.ReduceScatterOptions()
            name, factor = self._how(opts, output)
            sizes, n = [p.numel() for p in parts], output.numel()
            call = self._call("reduce_scatter", tensor, sizes, self._all(n), max(n, *sizes), reduction=name)
            heard = self._agree(call, opts)
            got = self._to_each("reduce_scatter", parts, self._all(n), opts)
            if n:
                exchange.up(output, exchange.reduced(name, got, factor))
            return self._done(call, heard, [output])

        def _reduce_scatter_base(self, output, input, opts=None):
            self._divides(input, output, "reduce_scatter_tensor: the input")
            parts = list(exchange.down(input).split(output.numel())) if output.numel() else [exchange.down(input)] * self.size()
            return self._scattered(output, parts, input, opts)

        reduce_scatter_single = _reduce_scatter_base

        def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
            for output, input in zip(outputs, inputs):
                self._reduce_scatter_base(output, input, opts)
            return _Done(outputs)

        reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

        def reduce_scatter(self, outputs, inputs, opts=None):
            for output, parts in zip(outputs, inputs):
                self._scattered(output, [exchange.down(p) for p in parts], output, opts)
            return _Done(outputs)

        def alltoall_base(self, output, input, output_sizes, input_sizes, opts=None):
            given, taken = self._splits(input, input_sizes, "input"), self._splits(output, output_sizes, "output")
            call = self._call("all_to_all", input, given, taken, max(*given, *taken))
            heard = self._agree(call, opts)
            parts = list(exchange.down(input).split(given))
            got = self._to_each("all_to_all", parts, taken, opts)
            exchange.up(output, torch.cat(got))
            return self._done(call, heard, [output])

        all_to_all_single = alltoall_base

        def _splits(self, tensor, sizes, what) -> list[int]:
            """Elements by rank."""
            rows = tensor.shape[0] if tensor.dim() else 1
            row = tensor.numel() // rows if rows else 0
            if not sizes and rows % self.size() == 0:
                return self._all(tensor.numel() // self.size())
            if len(sizes) != self.size() or sum(sizes) != rows:
                raise ValueError(
                    f"spyreccl: all_to_all_single of {self.size()} processes: the {what} has {rows} rows, and the sizes "
                    f"{list(sizes)} do not divide them"
                )
            return [n * row for n in sizes]

        def alltoall(self, outputs, inputs, opts=None):
            given, taken = [i.numel() for i in inputs], [o.numel() for o in outputs]
            call = self._call("all_to_all", inputs[0], given, taken, max(*given, *taken))
            heard = self._agree(call, opts)
            got = self._to_each("all_to_all", [exchange.down(i) for i in inputs], taken, opts)
            for output, part in zip(outputs, got):
                exchange.up(output, part)
            return self._done(call, heard, outputs)

        def gather(self, outputs, inputs, opts=None):
            opts = opts or c10d.GatherOptions()
            (tensor,), root = inputs, opts.rootRank
            wanted = outputs[0] if self.rank() == root else []
            taken = [o.numel() for o in wanted] or self._all(0)
            n = tensor.numel()
            call = self._call("gather", tensor, self._only(root, n), taken, max(n, *taken), root=root)
            heard = self._agree(call, opts)
            flat = exchange.down(tensor)
            parts = [flat if r == root else flat[:0] for r in range(self.size())]
            for output, part in zip(wanted, self._to_each("gather", parts, taken, opts)):
                exchange.up(output, part)
            return self._done(call, heard, outputs)

        def scatter(self, outputs, inputs, opts=None):
            opts = opts or c10d.ScatterOptions()
            (output,), root = outputs, opts.rootRank
            given = inputs[0] if self.rank() == root else []
            sizes = [g.numel() for g in given] or self._all(0)
            taken = self._only(root, output.numel())
            call = self._call("scatter", output, sizes, taken, max(output.numel(), *sizes), root=root)
            heard = self._agree(call, opts)
            empty = torch.empty(0, dtype=exchange.host_dtype(output.dtype))
            parts = [exchange.down(g) for g in given] or [empty] * self.size()
            got = self._to_each("scatter", parts, taken, opts)
            exchange.up(output, got[root])
            return self._done(call, heard, outputs)

        # Messages: a header with the sender's clock, then the elements.

        def send(self, tensors, dst, tag=0):
            (tensor,) = tensors
            n = tensor.numel()
            call = self._call("send", tensor, self._only(dst, n), self._all(0), n)
            sent = [call.header(self.rank()), exchange.down(tensor)]
            works = [self._gloo.send([s.view(torch.uint8)], dst, 2 * tag + i) for i, s in enumerate(sent) if s.numel()]
            exchange.account(call, self.size(), call.bytes, 0)

            def finish():
                for work in works:
                    self._carry(f"send to rank {dst}", None, lambda _: work)
                sent.clear()

            return _Later(tensors, finish)

        def recv(self, tensors, src, tag=0):
            (tensor,) = tensors
            n = tensor.numel()
            call = self._call("recv", tensor, self._all(0), self._all(0), n)
            host = torch.empty(n, dtype=exchange.host_dtype(tensor.dtype))
            key = (src, tag)

            def take():
                header = torch.empty_like(call.header(0))
                into = [header.view(torch.uint8)]
                self._carry(f"recv from rank {src}", None, lambda _: self._gloo.recv(into, src, 2 * tag))
                heard = Heard(header.tolist(), self.size())
                theirs = heard.given[self.rank()]
                if theirs != n or heard.dtype != exchange.dtype_name(tensor.dtype):
                    raise dist.DistBackendError(
                        f"spyreccl: recv of {exchange.dtype_name(tensor.dtype)} {list(tensor.shape)} on rank {self.rank()}: rank {src} "
                        f"sends {heard.dtype} {heard.size}; both have to be of one dtype and one number of elements"
                    )
                if n:
                    self._carry(f"recv from rank {src}", None, lambda _: self._gloo.recv([host.view(torch.uint8)], src, 2 * tag + 1))
                return heard.clock

            receiver = self._receivers[key] = _Receiver(self._receivers.get(key), take)

            def finish():
                clock = receiver.message()
                exchange.up(tensor, host)
                exchange.account(call, self.size(), call.bytes, clock)

            return _Later(tensors, finish)

        def recv_anysource(self, tensors, tag=0):
            raise NotImplementedError(
                "spyreccl: recv from any process: PyTorch does not ask a backend that is written in Python who the sender was; "
                "say it by `src`"
            )

    # Dynamo traces Python frames that run between the graphs of a compiled module, and FSDP1 calls collectives there.
    # They exchange bytes with other processes, so they have nothing that a graph could hold.
    for name, method in vars(SpyreCCL).copy().items():
        if callable(method) and not name.startswith("_"):
            setattr(SpyreCCL, name, torch._disable_dynamo(method))
    return SpyreCCL


def _create(store, rank, size, timeout):
    return _class()(store, rank, size, timeout)


def install() -> None:
    """Registers the backend for the device."""
    if dist.is_available():
        dist.Backend.register_backend("spyreccl", _create, devices=["spyre"])
