"""Collectives that copy: broadcast, gather, scatter, all-gather, all-to-all, and the barrier."""

from __future__ import annotations

import torch
from torch._C import _distributed_c10d as c10d

from .. import exchange
from ..exchange import Call
from .handles import Done


class Copies:
    """The copying half of the backend, over the exchanges of its transport."""

    def broadcast(self, tensors, opts=None):
        opts = opts or c10d.BroadcastOptions()
        (tensor,) = tensors
        root, n = opts.rootRank, tensor.numel()
        # Headers hold what each process gives to each rank; all others give nothing, so that two roots are found
        # out.
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
        """The tensors of all processes, of these numbers of elements, and a function that completes the call."""
        n = tensor.numel()
        call = self._call("all_gather", tensor, self._all(n), sizes, max(n, *sizes))
        heard = self._agree(call, opts)
        most = max(sizes)
        # Gloo gathers parts of one length, so shorter ones are padded and cut again behind it.
        flat = torch.nn.functional.pad(exchange.down(tensor), (0, most - n)) if n < most else exchange.down(tensor)
        parts = self._to_all("all_gather", flat, opts)
        return [p[:size] for p, size in zip(parts, sizes)], lambda result: self._done(call, heard, result)

    def allgather(self, outputs, inputs, opts=None):
        for wanted, tensor in zip(outputs, inputs):
            parts, done = self._gathered(tensor, [w.numel() for w in wanted], opts)
            for output, part in zip(wanted, parts):
                exchange.up(output, part)
            done(wanted)
        return Done(outputs)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        for i, tensor in enumerate(inputs):
            self.allgather([[of[i] for of in outputs]], [tensor], opts)
        return Done(outputs)

    def _allgather_base(self, output, input, opts=None):
        """Concatenates one tensor of each process."""
        self._divides(output, input, "all_gather_into_tensor: the output")
        parts, done = self._gathered(input, self._all(output.numel() // self.size()), opts)
        exchange.up(output, torch.cat(parts))
        return done([output])

    all_gather_single = _allgather_base

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        for output, input in zip(outputs, inputs):
            self._allgather_base(output, input, opts)
        return Done(outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

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
        # PyTorch counts the sizes of a split in rows, and the exchange counts elements.
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
        # A process that is not the root has no outputs, and takes nothing from anybody.
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
