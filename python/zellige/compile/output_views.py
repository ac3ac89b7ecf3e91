"""Views among the results of a graph.

What a compiled function returns shares memory as the function says: a view of an argument is one, two
results that overlap do so, and each has the strides and the offset that PyTorch expects. So the views that
results end in do not become part of a program, which writes every result into memory of its own: the
program gives the tensor that they look at, and they are taken of it when it has run.
"""

from __future__ import annotations

import operator

import torch

_OUTSIDE = "spyre.outside"


def is_view(node) -> bool:
    """Whether the results of a node share the memory of its first argument."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_view(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload) or not node.all_input_nodes:
        return False
    made = [r.alias_info for r in node.target._schema.returns]
    return bool(made) and all(a is not None and not a.is_write for a in made)


def is_outside(node) -> bool:
    """Whether a view is taken after the programs have run."""
    return _OUTSIDE in node.meta


def take_views_outside(gm: torch.fx.GraphModule) -> None:
    """Gives the results of a graph, and what is read by its strides, views of their own."""
    graph = gm.graph
    output = graph.output_node()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}

    def outside(node, before):
        """A copy of a view, and of those that it is a view of, in front of a node."""
        if not is_view(node):
            return node
        if node in copies:
            return copies[node]
        base = outside(node.args[0], before)
        with graph.inserting_before(before):
            copy = graph.node_copy(node, lambda n: base if n is node.args[0] else n)
        copy.meta[_OUTSIDE] = True
        copies[node] = copy
        return copy

    for node in list(graph.nodes):
        if node.target is torch.ops.aten.as_strided.default and isinstance(node.args[0], torch.fx.Node):
            # It reads memory by strides, and not elements: its operand needs the strides that it has in PyTorch.
            copies.clear()
            node.replace_input_with(node.args[0], outside(node.args[0], node))
    copies.clear()
    for node in dict.fromkeys(output.all_input_nodes):
        if is_view(node):
            output.replace_input_with(node, outside(node, output))
    graph.eliminate_dead_code()
    gm.recompile()


def physical_order(size, stride) -> list[int] | None:
    """The dimensions of a tensor by falling strides, where it fills its memory in another order than the row-major
    one; None for a row-major tensor, and for one with gaps or elements in one place."""
    order = sorted((d for d in range(len(size))), key=lambda d: (-stride[d] if size[d] != 1 else 0, d))
    kept = [d for d in order if size[d] != 1]
    if kept == sorted(kept) or 0 in size:
        return None
    expected = 1
    for d in reversed(kept):
        if stride[d] != expected:
            return None
        expected *= size[d]
    return [d for d in range(len(size)) if size[d] == 1] + kept
