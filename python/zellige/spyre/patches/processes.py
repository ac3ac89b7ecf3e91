"""Tensors that go to other processes, and batches that workers make of them."""

from __future__ import annotations

import functools

import torch


def _received(data, dtype, size, device, requires_grad):
    """A tensor of the device from another process."""
    made = torch.frombuffer(bytearray(data), dtype=dtype).reshape(size) if data else torch.empty(size, dtype=dtype)
    return made.to(device).requires_grad_(requires_grad)


def send(original):
    """Another process has a card of its own, so the elements of a tensor go there."""

    def reduced(tensor):
        if tensor.device.type != "spyre" or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return original(tensor)
        if type(tensor) is torch.nn.Parameter:
            return torch.nn.Parameter, (tensor.detach(), tensor.requires_grad)
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError("a tensor that was computed with gradients cannot go to another process: detach() it first")
        # As bytes: a file of shared memory would be closed with the copy on the host, before the other process has
        # opened it.
        host = tensor.detach().cpu().contiguous().flatten()
        data = host.view(torch.uint8).numpy().tobytes() if host.numel() else b""
        return _received, (data, tensor.dtype, tuple(tensor.shape), str(tensor.device), tensor.requires_grad)

    return reduced


def collate(original):
    """In a worker PyTorch would stack tensors into shared memory, which the card does not have."""

    @functools.wraps(original)
    def stacked(batch, *, collate_fn_map=None):
        if batch[0].device.type == "spyre":
            return torch.stack(batch, 0)
        return original(batch, collate_fn_map=collate_fn_map)

    return stacked


def pickler_entry(name: str):
    """Where multiprocessing looks up how a class is sent."""

    def find():
        from multiprocessing.reduction import ForkingPickler

        # PyTorch fills the table when this is imported.
        import torch.multiprocessing.reductions  # noqa: F401

        return ForkingPickler._extra_reducers, getattr(torch.nn, name, None) or getattr(torch, name)

    return find


def collate_entry():
    """Where a data loader looks up how tensors become a batch."""
    from torch.utils.data._utils.collate import default_collate_fn_map

    return default_collate_fn_map, torch.Tensor
