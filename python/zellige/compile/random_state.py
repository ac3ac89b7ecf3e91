"""Random operators that a backward pass runs again.

Checkpoints of activations compute a part of the forward pass twice. In a compiled graph PyTorch saves the state of
the random numbers at the first time and sets it at the second, for the devices that it knows; here for the card.
"""

from __future__ import annotations

import functools

import torch


def _card(args, kwargs):
    """The device of a call, where it is a card."""
    given = [kwargs.get("device"), *args]
    for value in given:
        device = value.device if isinstance(value, torch.Tensor) else value
        if isinstance(device, torch.device):
            return device if device.type == "spyre" else None
    return None


@functools.cache
def install() -> None:
    """Teaches both operators of PyTorch the card; once."""
    from torch._C import DispatchKey
    from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

    save, again = (op.py_kernels[DispatchKey.BackendSelect] for op in (run_and_save_rng_state, run_with_rng_state))

    def saved(op, *args, **kwargs):
        device = _card(args, kwargs)
        if device is None:
            return save(op, *args, **kwargs)
        return torch.spyre.get_rng_state(device), op(*args, **kwargs)

    def repeated(state, op, *args, **kwargs):
        device = _card(args, kwargs)
        if device is None:
            return again(state, op, *args, **kwargs)
        before = torch.spyre.get_rng_state(device)
        torch.spyre.set_rng_state(state, device)
        try:
            return op(*args, **kwargs)
        finally:
            torch.spyre.set_rng_state(before, device)

    for op, function in ((run_and_save_rng_state, saved), (run_with_rng_state, repeated)):
        op.py_kernels[DispatchKey.BackendSelect] = function
        op._dispatch_cache.clear()
