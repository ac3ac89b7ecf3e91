"""How a function becomes a kernel of the device, and how it calls operations of the card."""

from __future__ import annotations

import torch

from ... import _native
from .. import patches
from ..fallback import by_name

# Kernels by the names of their operators.
KERNELS: dict[str, object] = {}


def kernel(*names):
    """Makes a function the kernel of operators of ATen."""

    def add(function):
        # After a graph break Dynamo would compile this function itself.
        function = torch._disable_dynamo(function)
        for name in names:
            KERNELS[name] = function
        return function

    return add


def refusable(name, function):
    """A kernel that asks the CPU where the card refuses."""

    def kernel(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except _native.DeviceError as refusal:
            return by_name(name, str(refusal), args, kwargs)

    return torch._disable_dynamo(kernel)


def run(op, operands, **attributes):
    """The results of an operation of the card."""
    return _native.run(op, operands, attributes)


def run_into(op, operands, out, **attributes):
    """Writes the result of an operation into a tensor."""
    _native.run_into(op, operands, attributes, [out])
    return out


def run_alike(op, input, **attributes):
    """An operation whose result has the strides of its operand."""
    if input.is_contiguous():
        return run(op, [input], **attributes)
    return run_into(op, [input], torch.empty_like(input), **attributes)


def card_index(device) -> int:
    """The number of the card on which a factory makes its result."""
    index = torch.spyre.current_device() if device is None or device.index is None else device.index
    if index:
        patches.happened(patches.AT_SECOND_CARD)
    return index
