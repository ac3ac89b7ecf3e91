"""Cuts a graph into programs of the card and single operators beside them."""

from __future__ import annotations

import operator

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions


def fuse_supported(gm: torch.fx.GraphModule, is_supported) -> torch.fx.GraphModule:
    """The graph with its supported nodes in modules of their own.

    Most graphs are one program, which a single pass over the nodes shows. PyTorch's partitioner, whose time grows with
    the square of the graph, is needed only where an unsupported node separates supported ones.
    """
    supported = dict.fromkeys(node for node in gm.graph.nodes if is_supported(node))
    if _is_one_program(gm, supported):
        return fuse_by_partitions(gm, [supported] if supported else [])

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return node in supported

    return CapabilityBasedPartitioner(gm, Support(), allows_single_node_partition=True).partition_and_fuse()


def _is_one_program(gm: torch.fx.GraphModule, supported: dict) -> bool:
    """Whether all supported nodes can run at once: none needs an unsupported node that itself needs a supported one."""
    between = set()
    for node in gm.graph.nodes:
        if node in supported:
            if any(source in between for source in node.all_input_nodes):
                return False
            # The partitioner moves results of a supported operator with several of them beside the operator.
            if any(user.target is operator.getitem and user not in supported for user in node.users):
                return False
        elif any(source in supported or source in between for source in node.all_input_nodes):
            between.add(node)
    return True
