"""``x.device_tensor_layout()`` in a function that is compiled.

The answer is a constant of the graph: that of the real tensor for an input and its views, with a guard, so that an input
in another layout is traced anew; the named one for a tensor whose layout the function chooses; the default one for new
tensors. Other results have the layout that their kernels choose: the graph ends there, and the call is answered by the
tensor itself.
"""

from __future__ import annotations

import torch

from .. import _native
from ..spyre import fake_layouts

# Functions and methods whose results have the default layout of their size.
_DEFAULT_LAYOUT = frozenset(
    ("empty", "zeros", "ones", "full", "rand", "randn", "arange", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like")
    + ("randn_like", "new_empty", "new_zeros", "new_ones", "new_full")
)


def method_entry():
    """Dynamo's table of the methods of tensors, and the name of ours."""
    from torch._dynamo.variables.tensor import TensorVariable

    return TensorVariable.tp_methods, "device_tensor_layout"


def traced_method(_):
    """The entry of that table. After a graph break the method runs as it is: there is nothing in it to compile."""
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    from torch._dynamo.variables.base import Method

    from ..spyre.patches.arguments import device_tensor_layout

    set_code_exec_strategy(device_tensor_layout.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    return Method(_trace_device_tensor_layout)


def _trace_device_tensor_layout(tensor, tx):
    """The layout of a tensor of the graph as a constant."""
    from torch._dynamo.exc import unimplemented
    from torch._dynamo.variables.base import VariableTracker

    fake = tensor.as_proxy().node.meta["example_value"]
    if fake.device.type != "spyre":
        return VariableTracker.build(tx, None)
    known = fake_layouts.find_layout(fake)
    if known is None:
        layout = _default_layout(tx, fake)
    elif known.follows is None or _guard_inputs(tx, known.follows):
        layout = known.layout
    else:
        layout = None
    if layout is None:
        unimplemented(
            gb_type="device_tensor_layout() of a result",
            context=f"call_method {tensor} device_tensor_layout",
            explanation="The layout of this tensor is the choice of the kernel that computes it, and is not known while the "
            "graph is traced.",
            hints=[
                "Give the tensor a layout (`.to(\"spyre\", device_layout=...)`), or ask for the layout outside of the "
                "compiled function.",
            ],
        )
    return VariableTracker.build(tx, layout)


def _guard_inputs(tx, storage) -> bool:
    """Adds a guard on the layout of each input with that fake storage; whether there is one."""
    from torch._dynamo.source import AttrSource, CallFunctionNoArgsSource
    from torch._dynamo.variables.base import VariableTracker
    from torch._dynamo.variables.lazy import LazyVariableTracker

    found = False
    for node in tx.output.placeholders:
        fake, argument = node.meta.get("example_value"), node.meta.get("grapharg")
        if not fake_layouts.is_fake(fake) or fake.untyped_storage() is not storage or argument is None or argument.source is None:
            continue
        source = CallFunctionNoArgsSource(AttrSource(argument.source, "device_tensor_layout"))
        LazyVariableTracker.realize_all(VariableTracker.build(tx, fake_layouts.find_layout(fake).layout, source))
        found = True
    return found


def _default_layout(tx, fake):
    """The default layout of a new tensor; None of other results, and where a size is a symbol."""
    size, stride = list(fake.shape), list(fake.stride())
    if not all(isinstance(n, int) for n in (*size, *stride)):
        return None
    node = next((n for n in tx.output.graph.nodes if _has_storage(n, fake.untyped_storage())), None)
    return _native.usual_layout(size, fake.dtype, stride) if node is not None and _makes_default_layout(node) else None


def _has_storage(node, storage) -> bool:
    value = node.meta.get("example_value")
    return fake_layouts.is_fake(value) and value.untyped_storage() is storage


def _makes_default_layout(node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.op == "call_method" and name == "to":
        return node.args[0].meta["example_value"].device.type != "spyre"
    return node.op in ("call_method", "call_function") and name in _DEFAULT_LAYOUT
