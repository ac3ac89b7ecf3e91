"""Tensors of the device in files and pickles, with the storages that they share.

A tensor of the device is saved as a tensor of the host and the name of its device. During one ``torch.save`` all tensors
of a storage become views of one copy of it on the host, so PyTorch's own format keeps that they share it. During one
``torch.load`` the tensors of one storage of the host become views of one storage of the device.
"""

from __future__ import annotations

import contextlib
import functools
import threading

import torch

# The storages that this thread has met in the torch.save or the torch.load that is under way.
_session = threading.local()


class _Storages:
    """Copies of storages on another device, each made when the first tensor of it is met."""

    def __init__(self):
        # By the storage and the dtype: a tensor that keeps the storage alive, so that no other one gets its address, and
        # the copy.
        self._copies: dict[tuple, tuple[torch.Tensor, torch.Tensor]] = {}

    def view(self, tensor: torch.Tensor, device) -> torch.Tensor:
        """The tensor on another device, as a view of the copy of its storage."""
        tensor = tensor.detach()
        if tensor.layout is not torch.strided or tensor.numel() == 0 or tensor.is_conj() or tensor.is_neg():
            return tensor.to(device)
        storage = tensor.untyped_storage()
        key = (storage.data_ptr(), tensor.dtype, str(device))
        length = storage.nbytes() // tensor.element_size()
        fills = tensor.numel() == length and torch.ops.aten.is_non_overlapping_and_dense(tensor)
        if key not in self._copies:
            # A tensor that fills its storage keeps its dimensions, and so the layout of its kind on the device.
            whole = tensor if fills else tensor.as_strided([length], [1], 0)
            self._copies[key] = tensor, whole.to(device)
            if fills:
                return self._copies[key][1]
        copy = self._copies[key][1]
        return copy.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


@contextlib.contextmanager
def _one_session():
    before = getattr(_session, "storages", None)
    _session.storages = _Storages()
    try:
        yield _session.storages
    finally:
        _session.storages = before


def reduce_tensor(original):
    """What :mod:`pickle` makes of a tensor: one of the device becomes its elements on the host, and where they were."""

    def reduced(tensor):
        if tensor.device.type != "spyre":
            return tensor.__reduce_ex__(4) if original is None else original(tensor)
        storages = getattr(_session, "storages", None)
        host = tensor.detach().cpu() if storages is None else storages.view(tensor, torch.device("cpu"))
        rebuild = torch._utils._rebuild_device_tensor_from_cpu_tensor
        args = (host, tensor.dtype, str(tensor.device), tensor.requires_grad)
        # The attributes that a user gave the tensor are pickled too.
        state = torch._utils._get_obj_state(tensor)
        return (torch._tensor._rebuild_from_type_v2, (rebuild, torch.Tensor, args, state)) if state else (rebuild, args)

    return reduced


def rebuild_device_tensor(original):
    """Makes a tensor of the device of what :func:`reduce_tensor` gave; those of one storage share it."""

    @functools.wraps(original)
    def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
        storages = getattr(_session, "storages", None)
        place = torch._utils._get_restore_location(device)
        if storages is None or torch.device(place).type != "spyre" or dtype != data.dtype:
            return original(data, dtype, device, requires_grad)
        return storages.view(data, _complete(place)).requires_grad_(requires_grad)

    return _rebuild_device_tensor_from_cpu_tensor


def save(original):
    """``torch.save``: tensors of one storage of the device share it in the file."""

    @functools.wraps(original)
    def save(*args, **kwargs):
        with _one_session():
            return original(*args, **kwargs)

    return save


def load(original):
    """``torch.load`` onto the device."""

    @functools.wraps(original)
    def load(f, map_location=None, *args, **kwargs):
        with _one_session() as storages:
            if isinstance(map_location, (str, torch.device)) and _is_card(map_location):
                return _moved(original(f, "cpu", *args, **kwargs), map_location, storages)
            if isinstance(map_location, dict):
                return _load_by_table(original, storages, f, map_location, *args, **kwargs)
            if not callable(map_location):
                return original(f, map_location, *args, **kwargs)
            return _load_by_function(original, f, map_location, *args, **kwargs)

    return load


def _load_by_table(original, storages, f, places, *args, **kwargs):
    """Loads storages of the host onto the device where a dictionary maps them there. PyTorch can put tensors there, and no storages,
    so these are loaded to the host first."""
    to_card = {place: target for place, target in places.items() if _is_card(target) and not _is_card(place)}
    if not to_card:
        return original(f, places, *args, **kwargs)
    stay = [place for place, target in places.items() if place not in to_card and torch.device(target).type == "cpu"]
    if len({_complete(target) for target in to_card.values()}) > 1 or stay or "cpu" not in to_card:
        raise NotImplementedError(
            f"map_location={places!r}: storages of the host can go to one card, all of them, as with {{'cpu': 'spyre'}}; load "
            "with map_location='cpu', and move each tensor with .to()"
        )
    loaded = original(f, {**places, **dict.fromkeys(to_card, "cpu")}, *args, **kwargs)
    return _moved(loaded, next(iter(to_card.values())), storages)


def _load_by_function(original, f, place, *args, **kwargs):
    at = f.tell() if hasattr(f, "tell") else None
    try:
        return original(f, place, *args, **kwargs)
    except RuntimeError as error:
        # PyTorch takes no function for tensors that are not stored as bytes of their device. The usual one leaves
        # storages where they are, which is on the CPU.
        chosen = place(torch.UntypedStorage(0), "spyre:0")
        if "Callable map_location" not in str(error) or chosen is None or chosen.device.type != "cpu":
            raise
    if at is not None:
        f.seek(at)
    return original(f, "cpu", *args, **kwargs)


def _is_card(place) -> bool:
    return torch.device(place).type == "spyre"


def _complete(place) -> torch.device:
    """The device with an index."""
    device = torch.device(place)
    return torch.device("spyre", torch.spyre.current_device()) if device.index is None else device


def _moved(value, device, storages):
    """What was loaded, with its tensors of the host on a card; what was one tensor stays one, and storages stay shared."""
    from torch.utils._pytree import tree_map

    device, memo = _complete(device), {}

    def move(v):
        if isinstance(v, torch.nn.Module):
            return v.to(device)
        if not isinstance(v, torch.Tensor) or v.device.type == "meta":
            return v
        if id(v) not in memo:
            moved = storages.view(v, device) if v.device.type == "cpu" else v.detach().to(device)
            moved = torch.nn.Parameter(moved, v.requires_grad) if isinstance(v, torch.nn.Parameter) else moved.requires_grad_(v.requires_grad)
            # The original is kept so that no other one gets its number.
            memo[id(v)] = moved, v
        return memo[id(v)][0]

    return tree_map(move, value)
