"""The backend ``spyreccl``: its collectives and messages, put together on the base class of PyTorch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .copies import Copies
from .messages import Messages
from .reductions import Reductions
from .transport import Transport


# Ours come first, so that they are found before the methods of the base class, which only raise.
class SpyreCCL(Reductions, Copies, Messages, Transport, c10d.Backend):
    """Collectives: processes agree, elements are downloaded, gloo carries them, results are uploaded, the cards are charged."""

    # The properties of the base class call the Python override, which would recurse without end.
    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
    supports_shrinking = False

    def __init__(self, store, rank, size, timeout):
        c10d.Backend.__init__(self, rank, size)
        self._timeout = timeout
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._calls = 0
        self._receivers: dict = {}

    def getBackendName(self):
        return "spyreccl"

    def _set_default_timeout(self, timeout):
        self._timeout = timeout
        self._gloo._set_default_timeout(timeout)


# Dynamo traces Python frames that run between the graphs of a compiled module, and FSDP1 calls collectives there.
# They exchange bytes with other processes, so they have nothing that a graph could hold.
for _class in (Reductions, Copies, Messages, SpyreCCL):
    for _name, _method in vars(_class).copy().items():
        if callable(_method) and not _name.startswith("_"):
            setattr(_class, _name, torch._disable_dynamo(_method))
