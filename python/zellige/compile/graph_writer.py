"""Writes a graph for the compiler, as the JSON that Rust reads."""

from __future__ import annotations

import math

import torch

from .hints import VIEWS, split_of
from .report import place_of


class Refused(Exception):
    """A node without a form in the compiler's graphs."""

    # Its name, where one node is to blame.
    node: str | None = None


class Writer:
    """A graph of the compiler while it is written."""

    def __init__(self, name: str, env: dict, shapes):
        self.doc = {"name": name, "inputs": [], "ops": [], "outputs": []}
        self.env = env
        self.shape_of = shapes
        self.node = None

    def value(self, argument):
        """A tensor's name, or a plain value."""
        if isinstance(argument, torch.fx.Node):
            if argument in self.env:
                return self.env[argument]
            value = argument.meta.get("val")
            raise Refused(f"the argument {argument} is of type {type(value).__name__}, and no tensor of this graph")
        if isinstance(argument, (list, tuple)):
            return [self.value(a) for a in argument]
        if isinstance(argument, torch.dtype):
            return str(argument).removeprefix("torch.")
        return argument

    def op(self, op, inputs, outputs=None, pin=None, place=None, **attributes):
        """Adds an operation; its result has the name of the node, and the layout `pin` and the memory `place` where they
        are given."""
        outputs = [self.node.name] if outputs is None else outputs
        entry = {"op": op, "inputs": [_number(i) for i in inputs], "outputs": outputs}
        attributes = {k: _attribute(v) for k, v in attributes.items() if v is not None}
        if attributes:
            entry["attributes"] = attributes
        split = split_of(self.node, op, self.shape_of)
        if split:
            entry["split"] = split
        if pin:
            entry["pin"] = pin
        if place:
            entry["place"] = place
        at = _place(self.node)
        if at:
            entry["at"] = at
        self.doc["ops"].append(entry)
        return outputs[0] if len(outputs) == 1 else outputs

    def pinned(self, node, x, **wanted):
        """Gives the tensor `x` of a node a layout (`pin`) or a memory (`place`): its own operation writes it so where nothing
        else reads it, else a copy does."""
        wanted = {field: value for field, value in wanted.items() if value}
        for entry in self.doc["ops"]:
            if entry["outputs"] == [x] and entry["op"] not in VIEWS and not wanted.keys() & entry.keys() and len(node.users) == 1:
                entry.update(wanted)
                return x
        return self.op("clone", [x], **wanted)


def _place(node):
    place = place_of(node)
    return None if place == "unknown" else place


def _number(value):
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, (int, float)) or (isinstance(value, float) and math.isnan(value)):
        raise Refused(f"{value!r} cannot be an operand: tensors and numbers can")
    if isinstance(value, float) and math.isinf(value):
        # JSON has no number for it; a sign in front makes it no name of a tensor.
        return "+inf" if value > 0 else "-inf"
    return value


def _attribute(value):
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_attribute(v) for v in value]
    raise Refused(f"{value!r} cannot be an attribute: texts, numbers and lists of them can")
