"""``spyreccl``: collectives of tensors on the device, staged through the host by gloo.

``torch.distributed.init_process_group("spyreccl")`` makes a group of it.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


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
    from torch._C import _distributed_c10d as c10d

    class SpyreCCL(c10d.Backend):
        """Collectives: tensors go down, gloo does the work, results go up."""

        # The properties of the base class call the Python override, which would recurse without end.
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

        def _summed(self, options):
            """The options with a sum in place of an average, which gloo does not have, and the divisor of its result."""
            if options.reduceOp != dist.ReduceOp.AVG:
                return options, 1
            options.reduceOp = dist.ReduceOp.SUM
            return options, self.size()

        def allreduce(self, tensors, opts=None):
            options, parts = self._summed(opts or c10d.AllreduceOptions())
            done = self._in_place("allreduce", tensors, options)
            if parts > 1:
                for tensor in tensors:
                    tensor.div_(parts)
            return done

        def allreduce_coalesced(self, tensors, opts=None):
            given = opts or c10d.AllreduceCoalescedOptions()
            options = c10d.AllreduceOptions()
            options.reduceOp = given.reduceOp
            for tensor in tensors:
                self.allreduce([tensor], options)
            return _Done(tensors)

        def broadcast(self, tensors, opts=None):
            return self._in_place("broadcast", tensors, opts or c10d.BroadcastOptions())

        def reduce(self, tensors, opts=None):
            return self._in_place("reduce", tensors, opts or c10d.ReduceOptions())

        def barrier(self, opts=None):
            self._gloo.barrier(opts or c10d.BarrierOptions()).wait()
            return _Done([])

        def allgather(self, outputs, inputs, opts=None):
            values = [_down(part) for part in outputs]
            self._gloo.allgather(values, _down(inputs), opts or c10d.AllgatherOptions()).wait()
            for part, value in zip(outputs, values):
                _up(part, value)
            return _Done(outputs)

        def _allgather_base(self, output, input, opts=None):
            """Concatenates one tensor of each process."""
            value = output.cpu()
            parts = list(value.view(self.size(), -1).unbind(0))
            given = input.cpu().contiguous().view(-1)
            self._gloo.allgather([parts], [given], opts or c10d.AllgatherOptions()).wait()
            output.copy_(torch.stack(parts).view(output.shape))
            return _Done([output])

        all_gather_single = _allgather_base

        def all_gather_single_coalesced(self, outputs, inputs, opts=None):
            for output, input in zip(outputs, inputs):
                self._allgather_base(output, input)
            return _Done(outputs)

        allgather_into_tensor_coalesced = all_gather_single_coalesced

        def _reduce_scatter_base(self, output, input, opts=None):
            """This process's part of the reduction over all processes."""
            given, parts = self._summed(opts or c10d.ReduceScatterOptions())
            options = c10d.AllreduceOptions()
            options.reduceOp = given.reduceOp
            whole = [input.cpu().contiguous()]
            self._gloo.allreduce(whole, options).wait()
            own = whole[0].view(self.size(), -1)[self.rank()].view(output.shape)
            output.copy_(own / parts if parts > 1 else own)
            return _Done([output])

        reduce_scatter_single = _reduce_scatter_base

        def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
            for output, input in zip(outputs, inputs):
                options = c10d.ReduceScatterOptions()
                options.reduceOp = (opts or options).reduceOp
                self._reduce_scatter_base(output, input, options)
            return _Done(outputs)

        reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

        def reduce_scatter(self, outputs, inputs, opts=None):
            for output, parts in zip(outputs, inputs):
                options = c10d.ReduceScatterOptions()
                options.reduceOp = (opts or options).reduceOp
                self._reduce_scatter_base(output, torch.stack([p.cpu() for p in parts]), options)
            return _Done(outputs)

        def alltoall_base(self, output, input, output_sizes, input_sizes, opts=None):
            value = output.cpu().contiguous()
            given = input.cpu().contiguous()
            self._gloo.alltoall_base(value, given, output_sizes, input_sizes, opts or c10d.AllToAllOptions()).wait()
            output.copy_(value)
            return _Done([output])

        all_to_all_single = alltoall_base

        def alltoall(self, outputs, inputs, opts=None):
            flat = torch.cat([i.cpu().contiguous().view(-1) for i in inputs])
            got = torch.empty(sum(o.numel() for o in outputs), dtype=flat.dtype)
            sizes = [o.numel() for o in outputs], [i.numel() for i in inputs]
            self._gloo.alltoall_base(got, flat, *sizes, opts or c10d.AllToAllOptions()).wait()
            for output, part in zip(outputs, got.split(sizes[0])):
                output.copy_(part.view(output.shape))
            return _Done(outputs)

        def gather(self, outputs, inputs, opts=None):
            values = [_down(part) for part in outputs]
            self._gloo.gather(values, _down(inputs), opts or c10d.GatherOptions()).wait()
            for part, value in zip(outputs, values):
                _up(part, value)
            return _Done(outputs)

        def scatter(self, outputs, inputs, opts=None):
            values = _down(outputs)
            self._gloo.scatter(values, [_down(part) for part in inputs], opts or c10d.ScatterOptions()).wait()
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
