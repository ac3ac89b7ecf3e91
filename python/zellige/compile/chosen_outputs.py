"""Results that were written into a tensor of a chosen layout keep that layout.

``y = torch.empty(..., device_layout=L); y.copy_(x); return y`` has no writes once PyTorch has made the graph functional:
what is returned is a copy of ``x``, and ``L`` is that of a tensor which nobody reads. So the layout is made part of the
graph before: the result is moved into it, which the compiler merges with the operation that computes the result.
"""

from __future__ import annotations

from collections import Counter

import torch

from ..spyre import fake_layouts


def keep_chosen_layouts(gm: torch.fx.GraphModule) -> None:
    """Adds the layouts of results that were written in place."""
    output = gm.graph.output_node()
    results = [n for n in output.all_input_nodes if fake_layouts.is_fake(n.meta.get("example_value"))]
    shared = Counter(id(n.meta["example_value"].untyped_storage()) for n in results)
    for node in results:
        fake = node.meta["example_value"]
        # Results that share memory have to stay views of each other.
        if fake.device.type != "spyre" or fake._version == 0 or shared[id(fake.untyped_storage())] > 1:
            continue
        known = fake_layouts.find_layout(fake)
        if known is None or known.follows is not None or known.layout.host_size != list(fake.shape) or not fake.is_contiguous():
            continue
        with gm.graph.inserting_before(output):
            moved = gm.graph.call_function(torch.ops.spyre.to_layout.default, (node, known.layout._whole))
        moved.meta.update(node.meta)
        output.replace_input_with(node, moved)
    gm.recompile()
