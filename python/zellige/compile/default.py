"""``torch.compile`` without the name of a backend."""

from __future__ import annotations

import functools

import torch

from .. import _native


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
    def __call__(self, model_, inputs_, **kwargs):
        if _uses_spyre(model_, inputs_):
            from .backend import spyre_backend

            return spyre_backend(model_, inputs_, options=_spyre_options(self))
        return original(self, model_, inputs_, **kwargs)

    return __call__


def _spyre_options(wrapper) -> dict:
    """The options of the backend "spyre" among those that ``torch.compile`` was given."""
    return getattr(wrapper, "_spyre_options", {})


def apply_options(original):
    """Keeps the options of the backend "spyre" for its graphs, and gives the others to Inductor, which refuses names that
    it does not know."""

    @functools.wraps(original)
    def apply_options(self, options):
        names = _native.CompileOptions.names()
        own = {key: value for key, value in (options or {}).items() if key in names}
        # Bad values are an error here, where the user writes them.
        _native.CompileOptions(own)
        if own:
            self._spyre_options = {**_spyre_options(self), **own}
        rest = {key: value for key, value in (options or {}).items() if key not in own}
        try:
            return original(self, rest)
        except RuntimeError as error:
            if not str(error).startswith("Unexpected optimization option"):
                raise
            raise RuntimeError(f"{error}; graphs of the device spyre have {', '.join(names)}") from None

    return apply_options


def is_same_compiler(original):
    """Compilers with other options of the backend "spyre" are others: Dynamo reuses the code of equal ones."""

    @functools.wraps(original)
    def __eq__(self, other):
        return original(self, other) and _spyre_options(self) == _spyre_options(other)

    return __eq__
