"""``torch.compile`` without the name of a backend."""

from __future__ import annotations

import functools

import torch


def _uses_spyre(gm, example_inputs) -> bool:
    if any(isinstance(x, torch.Tensor) and x.device.type == "spyre" for x in example_inputs):
        return True
    for node in gm.graph.nodes:
        device = node.kwargs.get("device")
        if device is not None and not isinstance(device, torch.fx.Node) and torch.device(device).type == "spyre":
            return True
    return False


def compile_graph(original):
    """Sends the graphs with tensors of the device to the backend "spyre", and all others to Inductor."""

    @functools.wraps(original)
    def __call__(self, model_, inputs_):
        if _uses_spyre(model_, inputs_):
            from .backend import spyre_backend

            return spyre_backend(model_, inputs_)
        return original(self, model_, inputs_)

    return __call__
