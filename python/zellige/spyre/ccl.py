"""``spyreccl``: collectives of tensors on the device, staged through the host by gloo.

``torch.distributed.init_process_group("spyreccl")`` makes a group of it.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


class _Done(dist._Work if hasattr(dist, "_Work") else object):
    """Work that is done when it is handed out."""

    def __init__(self, result):
        super().__init__()
        self._result = result
        self._future = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def result(self):
        return self._result

    def get_future(self):
        return self._future


def _down(tensors):
    return [t.cpu() for t in tensors]


def _up(tensors, values):
    for tensor, value in zip(tensors, values):
        tensor.copy_(value)


def _class():
    from torch._C._distributed_c10d import Backend

    class SpyreCCL(Backend):
        """Collectives: tensors go down, gloo does the work, results go up."""

        # The base class would ask its own Python override, without end.
        supports_splitting = False
        supports_coalescing = False
        supports_time_estimate = False
        supports_shrinking = False

        def __init__(self, store, rank, size, timeout):
            super().__init__(rank, size)
            self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

        def getBackendName(self):
            return "spyreccl"

        def _in_place(self, name, tensors, options):
            values = _down(tensors)
            getattr(self._gloo, name)(values, options).wait()
            _up(tensors, values)
            return _Done(tensors)

        def allreduce(self, tensors, opts=None):
            return self._in_place("allreduce", tensors, opts or dist.AllreduceOptions())

        def broadcast(self, tensors, opts=None):
            return self._in_place("broadcast", tensors, opts or dist.BroadcastOptions())

        def reduce(self, tensors, opts=None):
            return self._in_place("reduce", tensors, opts or dist.ReduceOptions())

        def barrier(self, opts=None):
            self._gloo.barrier(opts or dist.BarrierOptions()).wait()
            return _Done([])

        def allgather(self, outputs, inputs, opts=None):
            values = [_down(part) for part in outputs]
            self._gloo.allgather(values, _down(inputs), opts or dist.AllgatherOptions()).wait()
            for part, value in zip(outputs, values):
                _up(part, value)
            return _Done(outputs)

        def gather(self, outputs, inputs, opts=None):
            values = [_down(part) for part in outputs]
            self._gloo.gather(values, _down(inputs), opts or dist.GatherOptions()).wait()
            for part, value in zip(outputs, values):
                _up(part, value)
            return _Done(outputs)

        def scatter(self, outputs, inputs, opts=None):
            values = _down(outputs)
            self._gloo.scatter(values, [_down(part) for part in inputs], opts or dist.ScatterOptions()).wait()
            _up(outputs, values)
            return _Done(outputs)

        def send(self, tensors, dst, tag=0):
            self._gloo.send(_down(tensors), dst, tag).wait()
            return _Done(tensors)

        def recv(self, tensors, src, tag=0):
            values = _down(tensors)
            self._gloo.recv(values, src, tag).wait()
            _up(tensors, values)
            return _Done(tensors)

    return SpyreCCL


def _create(store, rank, size, timeout):
    return _class()(store, rank, size, timeout)


def install() -> None:
    """Registers the backend for the device."""
    if dist.is_available():
        dist.Backend.register_backend("spyreccl", _create, devices=["spyre"])
