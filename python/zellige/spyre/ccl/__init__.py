"""``spyreccl``: collectives of tensors on the device, between processes that have cards of their own.

``torch.distributed.init_process_group("spyreccl")`` makes a group of it. Gloo carries the elements;
:mod:`..exchange` charges the time that the cards would take.
"""

from __future__ import annotations

import torch.distributed as dist


def _create(store, rank, size, timeout):
    # Imported here, because a PyTorch without torch.distributed has no base class for a backend.
    from .backend import SpyreCCL

    return SpyreCCL(store, rank, size, timeout)


def install() -> None:
    """Registers the backend for the device."""
    if dist.is_available():
        dist.Backend.register_backend("spyreccl", _create, devices=["spyre"])
