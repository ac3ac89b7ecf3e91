"""``spyreccl``: a backend of ``torch.distributed`` for tensors on the device, between processes that have their own cards.

``torch.distributed.init_process_group("spyreccl")`` creates a group of this backend. gloo carries the elements, and
:mod:`..exchange` charges the simulated cards the time that the transfer would take between real ones.
"""

from __future__ import annotations

import torch.distributed as dist


def _create(store, rank, size, timeout):
    # Imported here, because a PyTorch that was built without torch.distributed has no base class for a backend.
    from .backend import SpyreCCL

    return SpyreCCL(store, rank, size, timeout)


def install() -> None:
    """Registers the backend for the device "spyre", where PyTorch has torch.distributed."""
    if dist.is_available():
        dist.Backend.register_backend("spyreccl", _create, devices=["spyre"])
