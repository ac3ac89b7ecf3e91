"""Collectives that add up: all-reduce, reduce and reduce-scatter."""

from __future__ import annotations

import torch
from torch._C import _distributed_c10d as c10d

from .. import exchange
from .handles import Done

# Bytes up to which an all-reduce sends everything to everybody. Above, each process adds up one part: that sends fewer
# bytes and takes one message more, whose latency short tensors do not earn back.
_SMALL = 1 << 16


class Reductions:
    """The reducing half of the backend, over the exchanges of its transport."""

    def _how(self, options, tensor):
        name = exchange.reduction(options.reduceOp)
        exchange.check_reduction(name, tensor.dtype)
        # `factor` is there for PREMUL_SUM alone.
        return name, options.reduceOp.factor if name == "PREMUL_SUM" else None

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
        return Done(tensors)

    def _sum(self, call, flat, name, factor, opts):
        """The reduction of the tensors of all processes. Each process reduces one part, where that is less to send."""
        if flat.nbytes <= _SMALL:
            return exchange.reduced(name, self._to_all(call.kind, flat, opts), factor)
        # Rounded up, so that all parts have one length; the last is padded, and the padding is cut off at the end.
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
        # Only the root reduces, so the other processes send nothing to each other.
        parts = [flat if r == root else flat[:0] for r in range(self.size())]
        got = self._to_each("reduce", parts, taken, opts)
        if is_root and n:
            exchange.up(tensor, exchange.reduced(name, got, factor))
        return self._done(call, heard, tensors)

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
        return Done(outputs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, outputs, inputs, opts=None):
        for output, parts in zip(outputs, inputs):
            self._scattered(output, [exchange.down(p) for p in parts], output, opts)
        return Done(outputs)
