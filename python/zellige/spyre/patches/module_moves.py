"""Modules that move between the host and the device, and keep their parameters as Python objects."""

from __future__ import annotations

import threading

import torch

from ... import _native

# Whether this thread moves a scripted module.
_scripted = threading.local()


def _crosses(tensor, value) -> bool:
    """Whether a tensor of the device takes the place of one elsewhere, or the other way round."""
    return (tensor.device.type == "spyre") != (value.device.type == "spyre")


def _is_plain(tensor) -> bool:
    return tensor.layout is torch.strided and not torch._is_functional_tensor(tensor) and not isinstance(
        tensor, torch._subclasses.FakeTensor
    )


def data(original):
    """``p.data = ...`` between the host and the device."""

    def set_data(self, value):
        if not isinstance(value, torch.Tensor) or not _crosses(self, value) or not (_is_plain(self) and _is_plain(value)):
            return original.__set__(self, value)
        if self.grad_fn is not None:
            raise RuntimeError(
                f"the data of a tensor that was computed with gradients cannot move from {self.device} to {value.device}: "
                "move the leaf that it was computed from, or detach it"
            )
        # PyTorch replaces the storage of a tensor by one of the same kind of device alone. What a tensor is made of can
        # be exchanged for any other, and the Python object stays: ties and optimizers keep it.
        with torch._C.DisableTorchFunctionSubclass():
            kept = {name: getattr(self, name) for name in ("requires_grad", "_backward_hooks", "_post_accumulate_grad_hooks")}
            grad = self.grad
            torch._C._swap_tensor_impl(self, value.detach())
            for name, state in kept.items():
                setattr(self, name, state)
            if grad is not None:
                # A gradient is where its tensor is.
                grad.data = grad.detach().to(self.device)
                self.grad = grad

    return property(original.__get__, set_data, doc=original.__doc__)


def has_compatible_shallow_copy_type(original):
    """Lets ``Module.to`` set the data of a parameter that moves to the device, or from it."""

    # PyTorch's compiler knows the function by these names of arguments.
    def _has_compatible_shallow_copy_type(input, from_):
        if input.device.type == "spyre" or from_.device.type == "spyre":
            return _is_plain(input) and _is_plain(from_) and not getattr(_scripted, "moves", False)
        return original(input, from_)

    return _has_compatible_shallow_copy_type


def script_apply(original):
    """A scripted module holds what a parameter is made of, and not the Python object: it gets a new parameter."""

    def _apply(self, fn, recurse=True):
        before, _scripted.moves = getattr(_scripted, "moves", False), True
        try:
            return original(self, fn, recurse)
        finally:
            _scripted.moves = before

    return _apply


def linear_apply(original):
    """The weight of a linear layer gets the layout in which products read it when it comes to the device, so that it
    is not moved at every call."""

    def _apply(self, fn, recurse=True):
        before = self.weight.device.type
        module = original(self, fn, recurse)
        weight = self.weight
        if torch.nn.parameter.is_lazy(weight):
            return module
        if before not in ("spyre", "meta") and weight.device.type == "spyre" and type(weight) is torch.nn.Parameter:
            layout = _native.weight_layout(weight)
            if layout is not None:
                weight.data = _native.to_layout(weight.detach(), layout)
        return module

    return _apply
