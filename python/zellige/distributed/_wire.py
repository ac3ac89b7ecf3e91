"""Bytes between the processes of a group."""

from __future__ import annotations

import datetime
import time

import torch
import torch.distributed as dist

_TAG = 0x5A65


class Deadline:
    """How long a move may still take."""

    def __init__(self, timeout):
        if timeout is not None and not isinstance(timeout, datetime.timedelta):
            if not timeout > 0:
                raise ValueError(f"timeout={timeout!r}: seconds, more than 0, or a datetime.timedelta")
            timeout = datetime.timedelta(seconds=timeout)
        self.given = timeout
        self._end = None if timeout is None else time.monotonic() + timeout.total_seconds()

    def wait(self, work):
        """Waits for work; what fails raises."""
        if work is None:
            return
        if self._end is None:
            work.wait()
            return
        left = max(self._end - time.monotonic(), 0.001)
        work.wait(datetime.timedelta(seconds=left))


class HostWire:
    """Tensors in host memory, by gloo or whatever the group has for them."""

    device = torch.device("cpu")

    def __init__(self, group, backend=None):
        self._backend = group if backend is None else backend

    def swap(self, output, input):
        """The same number of bytes from every process to every other."""
        return self._backend.alltoall_base(output, input, [], [])

    def exchange(self, sends, receives):
        """Messages as pairs of a tensor and a peer; gives the work of receiving each, and the work of sending."""
        coming = [self._backend.recv([tensor], peer, _TAG) for tensor, peer in receives]
        return coming, [self._backend.send([tensor], peer, _TAG) for tensor, peer in sends]


class CudaWire:
    """Tensors of a GPU, by NCCL: everything that is sent and received at once is one group call."""

    def __init__(self, group, device):
        self._group, self.device = group, device

    def swap(self, output, input):
        return dist.all_to_all_single(output, input, group=self._group, async_op=True)

    def exchange(self, sends, receives):
        operations = [dist.P2POp(dist.irecv, t, group=self._group, group_peer=p) for t, p in receives]
        operations += [dist.P2POp(dist.isend, t, group=self._group, group_peer=p) for t, p in sends]
        works = dist.batch_isend_irecv(operations) if operations else []
        # A library may return one handle for all of them.
        return [None] * len(receives), works


def wire_of(group, device):
    """How the group moves tensors of a device."""
    if device.type == "spyre":
        backend = group._get_backend(device)
        host = getattr(backend, "_gloo", None)
        return HostWire(group) if host is None else HostWire(group, host)
    if device.type == "cpu":
        return HostWire(group)
    return CudaWire(group, device)
