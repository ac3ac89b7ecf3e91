"""Backward passes on cards other than the first."""

from __future__ import annotations

import functools

import torch


@functools.cache
def several_cards() -> None:
    """Lets backward passes run in the thread that asks for them, from now on.

    PyTorch has a thread for each device that it counts, and of a device that is written in Python it counts one:
    a gradient on a second card would have no thread.
    """
    original = torch.autograd.graph._engine_run_backward

    @functools.wraps(original)
    def run(*args, **kwargs):
        with torch.autograd.set_multithreading_enabled(False):
            return original(*args, **kwargs)

    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = run
