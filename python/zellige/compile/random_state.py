"""Random operators that a backward pass runs again.

Checkpoints of activations compute a part of the forward pass twice. In a compiled graph PyTorch saves the state of
the random numbers at the first time and sets it at the second, for the devices that it knows; here for the card.
"""

from __future__ import annotations

import torch


def _card(args, kwargs):
    """The device of a call, where it is a card."""
    given = [kwargs.get("device"), *args]
    for value in given:
        device = value.device if isinstance(value, torch.Tensor) else value
        if isinstance(device, torch.device):
            return device if device.type == "spyre" else None
    return None


def run_and_save(original):
    """Runs an operator, and gives the state of the random numbers before it too."""

    def saved(op, *args, **kwargs):
        device = _card(args, kwargs)
        if device is None:
            return original(op, *args, **kwargs)
        return torch.spyre.get_rng_state(device), op(*args, **kwargs)

    return saved


def run_with(original):
    """Runs an operator with the random numbers of an earlier state."""

    def repeated(state, op, *args, **kwargs):
        device = _card(args, kwargs)
        if device is None:
            return original(state, op, *args, **kwargs)
        before = torch.spyre.get_rng_state(device)
        torch.spyre.set_rng_state(state, device)
        try:
            return op(*args, **kwargs)
        finally:
            torch.spyre.set_rng_state(before, device)

    return repeated
