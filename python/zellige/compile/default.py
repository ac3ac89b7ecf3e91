"""``torch.compile`` without the name of a backend."""

from __future__ import annotations

import functools

import torch


def _is_on_card(value) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "spyre"


def _uses_spyre(gm, example_inputs) -> bool:
    """Whether an input or a result of the graph is on the device: Dynamo computes each node with a fake tensor, so a
    device is seen in whatever way the program names it."""
    if any(_is_on_card(x) for x in example_inputs):
        return True
    values = (node.meta.get("example_value") for node in gm.graph.nodes)
    return any(_is_on_card(value) for result in values for value in (result if isinstance(result, (list, tuple)) else [result]))


def compile_graph(original):
    """Sends the graphs with tensors of the device to the backend "spyre", and all others to Inductor."""

    @functools.wraps(original)
    def __call__(self, model_, inputs_):
        if _uses_spyre(model_, inputs_):
            from .backend import spyre_backend

            return spyre_backend(model_, inputs_)
        return original(self, model_, inputs_)

    return __call__
