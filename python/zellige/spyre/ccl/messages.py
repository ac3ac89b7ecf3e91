"""Messages between two processes: a header with the sender's clock, then the elements."""

from __future__ import annotations

import torch
import torch.distributed as dist

from .. import exchange
from ..exchange import Heard
from .handles import Later, Receiver


class Messages:
    """Send and receive. Both return at once, since two processes may send to each other at the same time."""

    def send(self, tensors, dst, tag=0):
        (tensor,) = tensors
        n = tensor.numel()
        call = self._call("send", tensor, self._only(dst, n), self._all(0), n)
        sent = [call.header(self.rank()), exchange.down(tensor)]
        # Two messages of gloo under two tags, because the receiver must read the header before it knows what
        # follows.
        works = [self._gloo.send([s.view(torch.uint8)], dst, 2 * tag + i) for i, s in enumerate(sent) if s.numel()]
        # The sender's card does not wait for the receiver: its clock moves on by the time of the message alone.
        exchange.account(call, self.size(), call.bytes, 0)

        def finish():
            for work in works:
                self._carry(f"send to rank {dst}", None, lambda _: work)
            sent.clear()

        return Later(tensors, finish)

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

        # Behind the receiver before it: two messages of one sender under one tag would otherwise be mixed up.
        receiver = self._receivers[key] = Receiver(self._receivers.get(key), take)

        def finish():
            clock = receiver.message()
            exchange.up(tensor, host)
            exchange.account(call, self.size(), call.bytes, clock)

        return Later(tensors, finish)

    def recv_anysource(self, tensors, tag=0):
        raise NotImplementedError(
            "spyreccl: recv from any process: PyTorch does not ask a backend that is written in Python for the sender; "
            "give it as `src`"
        )
