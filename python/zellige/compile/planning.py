"""Plans without weights: what a model would do on the card, from its configuration alone."""

from __future__ import annotations

import json
import time

import torch

from .. import _native
from .backend import _decompositions
from .graph import Refused, Writer, emit, supported
from .report import Part, Report, place_of, publish


def plan(make_model, *make_inputs, name: str = "plan") -> Report:
    """Compiles a model that has no memory behind it.

    ``make_model()`` makes the model, each of ``make_inputs`` an input; both run with tensors that have
    sizes and dtypes only, on the device, so a model of any size fits. The report says what one run
    takes on the card.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    start = time.perf_counter()
    report = Report()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("spyre"), torch.no_grad():
        model = make_model()
        graph, weights = _traced(model, [make() for make in make_inputs])
    program = _native.Program(json.dumps(_written(graph, weights, name, report)), 0)
    part = Part()
    part.add(program)
    report.parts.append(part)
    report.milliseconds = (time.perf_counter() - start) * 1e3
    publish(report)
    return report


def _traced(model, inputs):
    """The model as one graph of functional operators; and which of its inputs are weights."""
    from torch._dynamo.backends.common import aot_autograd

    graphs, weights = [], []

    def keep(gm, _):
        graphs.append(gm)
        return gm.forward

    def backend(gm, examples):
        weights[:] = [isinstance(e, torch.nn.Parameter) for e in examples]
        build = aot_autograd(fw_compiler=keep, inference_compiler=keep, decompositions=_decompositions())
        return build(gm, examples)

    torch._dynamo.reset()
    torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(*inputs)
    return graphs[-1], weights


def _written(gm, weights: list[bool], name: str, report: Report) -> dict:
    """The graph for the compiler. Operators without a form there become inputs of their results' sizes,
    and the report names them."""
    env: dict = {}
    writer = Writer(name, env, lambda node: [int(s) for s in node.meta["val"].shape])
    count = 0

    def given(node, value, role):
        dtype = str(value.dtype).removeprefix("torch.")
        writer.doc["inputs"].append({"name": node.name, "dtype": dtype, "size": list(value.shape), "role": role})
        env[node] = node.name

    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder":
            given(node, value, "weight" if weights[count] else "input")
            count += 1
        elif node.op == "call_function":
            if supported(node):
                emit(writer, node)
            elif isinstance(value, torch.Tensor):
                report.eager(str(node.target), place_of(node))
                given(node, value, "input")
            else:
                raise Refused(f"{node.target} has no form on the card, and its result is no tensor")
        elif node.op == "get_attr":
            given(node, getattr(gm, node.target), "weight")
        elif node.op == "output":
            found = [o for o in node.args[0] if isinstance(o, torch.fx.Node)]
            writer.doc["outputs"] = list(dict.fromkeys(env[o] for o in found))
    used = {i for op in writer.doc["ops"] for i in op["inputs"] if isinstance(i, str)} | set(writer.doc["outputs"])
    writer.doc["inputs"] = [i for i in writer.doc["inputs"] if i["name"] in used]
    return writer.doc
