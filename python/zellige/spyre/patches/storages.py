"""Places where PyTorch takes the memory of a tensor for bytes: printing, copying, resizing."""

from __future__ import annotations

import copy
import functools

import torch

from ... import _native
from ..dynamic import copied


def deepcopy(original):
    """``copy.deepcopy`` of a tensor of the device: a clone, with its reserved sizes."""

    @functools.wraps(original)
    def __deepcopy__(self, memo):
        if self.device.type != "spyre" or type(self) is not torch.Tensor or not self.is_leaf:
            return original(self, memo)
        if id(self) not in memo:
            made = copied(self)
            made = self.detach().clone() if made is None else made
            memo[id(self)] = made.requires_grad_(self.requires_grad)
        return memo[id(self)]

    return __deepcopy__


def shallow_copy(_):
    """``copy.copy`` of a tensor of the device: another tensor over the same storage."""

    def __copy__(self):
        if self.device.type == "spyre" and type(self) is torch.Tensor:
            return self.detach().requires_grad_(self.requires_grad)
        return copy._reconstruct(self, None, *self.__reduce_ex__(4))

    return __copy__


def representation(original):
    """Tensors of the device are printed as their copies on the host are."""

    @functools.wraps(original)
    def __repr__(self, *, tensor_contents=None):
        plain = type(self) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        if tensor_contents is None and plain and self.device.type == "spyre":
            tensor_contents = torch._tensor_str._tensor_str(self.detach().cpu(), len("tensor("))
        return original(self, tensor_contents=tensor_contents)

    return __repr__


def new_storage(original):
    """Storages of the device are made with a tensor."""

    def __new__(cls, *args, device=None, **kwargs):
        if device is not None and torch.device(device).type == "spyre":
            raise NotImplementedError(
                "storages of the device come with a tensor: make one with torch.empty(..., device='spyre')"
            )
        return original(cls, *args, **({} if device is None else {"device": device}), **kwargs)

    return staticmethod(__new__)


_nbytes = torch.UntypedStorage.nbytes


def resize_storage(original):
    """A storage of the device gives its memory back, and gets it again: sharded modules free parameters between uses."""

    @functools.wraps(original)
    def resize_(self, size):
        if self.device.type != "spyre":
            return original(self, size)
        # The size that PyTorch keeps is the one the storage was made with, freed or not.
        full = _nbytes(self)
        if size == 0:
            _native.free_storage(self.data_ptr())
        elif size == full:
            _native.allocate_storage(self.data_ptr())
        else:
            raise NotImplementedError(
                f"a storage of the device has 0 or {full} bytes and cannot have {size}: make another tensor"
            )
        return self

    return resize_


def storage_size(original):
    """The bytes of a storage: 0 while its memory is given back."""

    @functools.wraps(original)
    def size(self):
        return 0 if self.device.type == "spyre" and _is_freed(self) else original(self)

    return size


def _is_freed(storage) -> bool:
    try:
        address = storage.data_ptr()
    except RuntimeError:
        # The storage of a traced tensor has a size and no address.
        return False
    return _native.is_storage_freed(address)
