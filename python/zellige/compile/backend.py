"""From a graph of PyTorch to something that runs."""

from __future__ import annotations

import contextlib
import functools
import operator
import time

import torch

from .. import _logs, _native
from ..spyre import patches
from ..spyre.kernels import convolutions, indexing, selection
from . import byte_images, recompiles
from .output_views import is_outside, take_views_outside
from .breaks import heard
from .chosen_outputs import keep_chosen_layouts
from .collection import deferred_collection
from .graph import supported
from .partition import fuse_supported
from .report import Report, place_of, publish
from .segment import Segment
from .settings import with_settings
from .weights import with_known_parts


@functools.cache
def _decompositions() -> dict:
    """PyTorch's core decompositions, but for operators that the card has."""
    from torch._decomp import core_aten_decompositions

    from .graph import names

    kept = names()
    table = core_aten_decompositions()
    aten = torch.ops.aten
    # Eager kernels decompose these operators into operators of the card; graphs are decomposed in the same way.
    table[aten.convolution.default] = convolutions.convolution
    table[aten.convolution_backward.default] = convolutions.convolution_backward
    table[aten.max_pool2d_with_indices_backward.default] = convolutions.max_pool2d_with_indices_backward
    table[aten.histc.default] = selection.histc
    kept -= {"aten::convolution"}
    table = {op: rule for op, rule in table.items() if not (isinstance(op, torch._ops.OpOverload) and op.name() in kept)}
    table[torch.ops.aten._unsafe_index.Tensor] = _within_index
    for op in list(table):
        if "upsample_bicubic2d" in str(op):
            table[op] = byte_images.of_floats(table[op])
    return table


def _within_index(x, indices):
    """Indices that are computed, and not checked: in 16 bits a coordinate may round past the last element."""
    return torch.ops.aten.index.Tensor(x, indexing.within(x, indices))


def spyre_backend(gm: torch.fx.GraphModule, example_inputs, *, options=None, mode=None, name=None):
    """What ``torch.compile(model, backend="spyre")`` calls. ``options`` are those of the compiler; ``mode`` and ``name``
    are arguments of ``torch.compile`` for other backends and have no effect."""
    from torch._dynamo.backends.common import aot_autograd

    options = _native.CompileOptions(with_settings(options))
    patches.happened(patches.AT_FIRST_GRAPH)
    report = Report(breaks=heard(), recompiles=recompiles.heard())
    _logs.asked(report)
    keep_chosen_layouts(gm)
    compiler = functools.partial(_compiled, report=report, options=options)
    build = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=_decompositions(),
        keep_inference_input_mutations=True,
    )
    publish(report)
    return with_known_parts(build(gm, example_inputs), example_inputs)


def _compiled(gm: torch.fx.GraphModule, example_inputs, *, report: Report, options=None):
    """A function that runs the graph: segments of the card, the rest operator by operator."""
    from functorch.compile import make_boxed_func

    start = time.perf_counter()
    with deferred_collection():
        take_views_outside(gm)
        fused = programs_of(gm, report, options=options)
    exchanges = False
    for node in fused.graph.nodes:
        if is_exchange(node):
            exchanges = True
        elif node.op == "call_function" and not _is_size(node) and not is_outside(node):
            report.eager(str(node.target), place_of(node))
    _logs.graph(len(gm.graph.nodes), sum(isinstance(m, Segment) for m in fused.children()))
    report.milliseconds += (time.perf_counter() - start) * 1e3

    def run(*args):
        with report.exchanging(fused) if exchanges else contextlib.nullcontext():
            return run_graph(*args)

    def run_graph(*args):
        # Views are made here that autograd has no part in: what the graph returns are plain tensors to it.
        with torch._C._AutoDispatchBelowAutograd():
            return fused(*args)

    return make_boxed_func(run)


def programs_of(gm: torch.fx.GraphModule, report: Report, wanted=lambda node: True, options=None) -> torch.fx.GraphModule:
    """The graph with its nodes that are supported, and wanted, in segments."""
    fused = fuse_supported(gm, lambda node: wanted(node) and not is_outside(node) and supported(node))
    for node in [n for n in fused.graph.nodes if n.op == "call_module"]:
        states = _states(fused.graph, node)
        setattr(fused, node.target, Segment(getattr(fused, node.target), report, states, options))
    fused.recompile()
    return fused


def _states(graph: torch.fx.Graph, segment: torch.fx.Node) -> dict[int, int]:
    """Outputs of a segment that are only copied into an argument of it, which has no other reader: they
    become part of its program, and the copies are removed."""
    found: dict[int, int] = {}
    outputs = [u for u in segment.users if u.target is operator.getitem] or [segment]
    for output in outputs:
        # A view that is taken afterwards may as well be taken of the argument, which has the value by then.
        later = [u for u in output.users if is_outside(u)]
        into = [u for u in output.users if not is_outside(u)]
        if len(into) != 1 or into[0].target is not torch.ops.aten.copy_.default or into[0].args[1] is not output:
            continue
        (copy,) = into
        given, value = copy.args[0], copy.args[1].meta.get("val")
        same = value is not None and given.meta["val"].shape == value.shape and given.meta["val"].dtype == value.dtype
        if given.op != "placeholder" or not same or given not in segment.args:
            continue
        if any(not is_outside(u) for u in set(given.users) - {segment, copy, graph.output_node()}):
            continue
        argument, number = segment.args.index(given), output.args[1] if output is not segment else 0
        if argument in found.values() or segment.args.count(given) != 1:
            continue
        found[number] = argument
        for view in later:
            view.replace_input_with(output, given)
        copy.replace_all_uses_with(given)
        graph.erase_node(copy)
    return found


def is_exchange(node) -> bool:
    """Whether a node exchanges tensors with other processes, or waits for that: it runs in its place in the graph, between
    programs, by the group's own backend."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _EXCHANGES


_EXCHANGES = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d_functional")


def _is_size(node) -> bool:
    """Whether a node computes with sizes, which cost nothing."""
    value = node.meta.get("val")
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)) or node.target is operator.getitem
