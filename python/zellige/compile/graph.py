"""From nodes of PyTorch's graphs to operations of the compiler's.

:func:`supported` says which nodes have a form there; :func:`emit` writes a node, for sizes that are known.
"""

from __future__ import annotations

import functools
import operator

import torch

from .. import _native
from .graph_writer import Refused, Writer
from .operator_rules import rules

__all__ = ["Refused", "Writer", "emit", "names", "supported"]

aten = torch.ops.aten

# Operators with several results of which the card computes the first.
_FIRST_RESULT_ALONE = (
    aten.native_layer_norm.default,
    aten.max_pool2d_with_indices.default,
    aten._native_batch_norm_legit_no_training.default,
)


@functools.cache
def _table() -> dict:
    return {"aten::" + name: kernel for name, kernel in _native.kernels() if kernel.functional}


@functools.cache
def names() -> frozenset[str]:
    """Operators that need no decomposition."""
    return frozenset(_table()) | frozenset(op.name() for op in rules() if isinstance(op, torch._ops.OpOverload))


def _on_device(node) -> bool:
    """Whether all tensors of a node are of the device, with dtypes that it computes with."""
    def fine(value):
        if isinstance(value, torch.Tensor):
            return value.device.type == "spyre" and _native.is_computed(value.dtype)
        if isinstance(value, (list, tuple)):
            return all(fine(v) for v in value)
        return True

    values = [node.meta.get("val")] + [a.meta.get("val") for a in node.all_input_nodes]
    return all(fine(v) for v in values)


def supported(node) -> bool:
    """Whether a node has a form in the compiler's graphs."""
    if node.op != "call_function" or not _on_device(node):
        return False
    if node.target is operator.getitem:
        source = node.args[0]
        if not isinstance(source.meta.get("val"), (list, tuple)) or not supported(source):
            return False
        return _has_result(source, node.args[1])
    if not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple)):
        return False
    # A list of results has no form in the compiler: every user must take one result of it.
    if isinstance(node.meta.get("val"), (list, tuple)):
        if any(u.target is not operator.getitem or not _has_result(node, u.args[1]) for u in node.users):
            return False
    value = node.meta["val"]
    if isinstance(value, torch.Tensor) and any(s == 0 for s in value.shape if isinstance(s, int)):
        return False
    shapes = lambda n: [s if isinstance(s, int) else 2 for s in n.meta["val"].shape]
    env = {a: _probe(a) for a in node.all_input_nodes}
    try:
        emit(Writer("probe", env, shapes), node)
        return True
    except Refused:
        return False
    except (TypeError, ValueError, KeyError, IndexError):
        return False


def _has_result(node, number: int) -> bool:
    """Whether the card gives that result of a node."""
    return number == 0 or node.target not in _FIRST_RESULT_ALONE


def _probe(node):
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        return [f"{node.name}.{i}" for i in range(len(value))]
    if isinstance(value, torch.Tensor):
        return node.name
    return 2 if value is None else value if isinstance(value, (int, float, bool)) else 2


def emit(writer: Writer, node) -> None:
    """Adds a node to the graph."""
    try:
        _emit(writer, node)
    except Refused as refusal:
        refusal.node = node.name
        raise


def _emit(writer: Writer, node) -> None:
    writer.node = node
    args, kwargs = writer.value(list(node.args)), {k: writer.value(v) for k, v in node.kwargs.items()}
    rule = rules().get(node.target)
    if rule is not None:
        writer.env[node] = rule(writer, node, *args, **kwargs)
        return
    if not isinstance(node.target, torch._ops.OpOverload):
        raise Refused(f"{node.target} is not an operator of PyTorch")
    kernel = _table().get(node.target.name())
    if kernel is None:
        raise Refused(f"the compiler has no operation for {node.target}")
    operands, attributes, wanted = [], dict(kernel.constants), None
    for i, (name, role) in enumerate(zip(kernel.arguments, kernel.roles)):
        value = args[i] if i < len(args) else kwargs.get(name)
        kind, _, rest = role.partition(" ")
        if value is None or kind == "ignored":
            continue
        if kind == "operand":
            operands.extend(value if isinstance(value, list) else [value])
        elif kind == "attribute":
            if rest != "dim" or value != []:
                attributes[rest] = value
        elif kind == "refused":
            if bool(value) == (rest == "true"):
                raise Refused(f"the compiler does not support `{name}={value}` of {node.target}")
        elif kind == "one":
            if value != 1:
                raise Refused(f"the compiler does not support `{name}={value}` of {node.target}")
        else:
            wanted = value
            operands[0] = writer.op("cast", [operands[0]], [node.name + ".cast"], dtype=value, wide=_native.keeps(value))
    value = node.meta["val"]
    if any(isinstance(o, float) for o in (*operands, *attributes.values())) and isinstance(value, torch.Tensor) and value.is_floating_point():
        given = [a.meta["val"] for a in node.all_input_nodes if isinstance(a.meta.get("val"), torch.Tensor)]
        if given and not any(t.is_floating_point() for t in given):
            # A float without a fraction is written as an integer is: the tensors beside it say that it is one.
            like = dict(dtype=str(value.dtype).removeprefix("torch."), wide=_native.keeps(value.dtype))
            operands = [writer.op("cast", [o], [f"{node.name}.float{i}"], **like) if isinstance(o, str) else o for i, o in enumerate(operands)]
    outputs = [f"{node.name}.{i}" for i in range(len(value))] if isinstance(value, (list, tuple)) else None
    if wanted is not None and "float" not in wanted:
        # Sums of small integers are int64, as in PyTorch, unless the call names a dtype.
        operands, attributes = [writer.op(kernel.op, operands, [node.name + ".wide"], **attributes)], dict(dtype=wanted)
        writer.env[node] = writer.op("cast", operands, outputs, **attributes)
        return
    writer.env[node] = writer.op(kernel.op, operands, outputs, **attributes)
