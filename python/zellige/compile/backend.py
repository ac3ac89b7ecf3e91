"""From a graph of PyTorch to something that runs."""

from __future__ import annotations

import functools
import operator
import time

import torch

from .breaks import heard
from .graph import supported
from .report import Report, place_of, publish
from .segment import Segment


@functools.cache
def _decompositions() -> dict:
    """PyTorch's core decompositions, but for operators that the card has."""
    from torch._decomp import core_aten_decompositions

    from .graph import names

    kept = names()
    table = core_aten_decompositions()
    return {op: rule for op, rule in table.items() if not (isinstance(op, torch._ops.OpOverload) and op.name() in kept)}


def spyre_backend(gm: torch.fx.GraphModule, example_inputs, **options):
    """What ``torch.compile(model, backend="spyre")`` calls."""
    from torch._dynamo.backends.common import aot_autograd

    report = Report(breaks=heard())
    compiler = functools.partial(_compiled, report=report)
    build = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=_decompositions(),
        keep_inference_input_mutations=True,
    )
    publish(report)
    return build(gm, example_inputs)


def _compiled(gm: torch.fx.GraphModule, example_inputs, *, report: Report):
    """A function that runs the graph: segments of the card, the rest operator by operator."""
    from functorch.compile import make_boxed_func
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    start = time.perf_counter()

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return supported(node)

    for node in gm.graph.nodes:
        if node.op == "call_function" and not supported(node) and not _is_size(node):
            report.eager(str(node.target), place_of(node))
    partitioner = CapabilityBasedPartitioner(gm, Support(), allows_single_node_partition=True)
    fused = partitioner.partition_and_fuse()
    for name, module in list(fused.named_children()):
        if isinstance(module, torch.fx.GraphModule):
            setattr(fused, name, Segment(module, report))
    fused.recompile()
    report.milliseconds += (time.perf_counter() - start) * 1e3
    return make_boxed_func(fused.forward)


def _is_size(node) -> bool:
    """Whether a node computes with sizes, which cost nothing."""
    value = node.meta.get("val")
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)) or node.target is operator.getitem
