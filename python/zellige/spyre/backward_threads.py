"""Backward passes on cards other than the first."""

from __future__ import annotations

import functools

import torch


def run_backward(original):
    """Lets backward passes run in the thread that asks for them.

    PyTorch has a thread for each device that it counts, and of a device that is written in Python it counts one:
    a gradient on a second card would have no thread.
    """

    @functools.wraps(original)
    def run(*args, **kwargs):
        with torch.autograd.set_multithreading_enabled(False):
            return original(*args, **kwargs)

    return run
