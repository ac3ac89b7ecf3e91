"""``torch.compile`` without the name of a backend."""

from __future__ import annotations

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


def compiler_class(original):
    """The class of what ``torch.compile`` calls without the name of a backend: graphs with tensors of the device go to the
    backend "spyre", with its options, and all others to Inductor, with Inductor's."""

    class _TorchCompileInductorWrapper(original):
        def apply_options(self, options):
            names = _native.CompileOptions.names()
            own = {key: value for key, value in (options or {}).items() if key in names}
            # Bad values are an error here, where the user writes them.
            _native.CompileOptions(own)
            self._spyre_options = {**self.__dict__.get("_spyre_options", {}), **own}
            try:
                super().apply_options({key: value for key, value in (options or {}).items() if key not in own})
            except RuntimeError as error:
                if not str(error).startswith("Unexpected optimization option"):
                    raise
                raise RuntimeError(f"{error}; graphs of the device spyre have {', '.join(names)}") from None

        def __eq__(self, other):
            # Dynamo reuses the code of an equal compiler.
            return super().__eq__(other) and self._spyre_options == other._spyre_options

        def __call__(self, model_, inputs_, **kwargs):
            if _uses_spyre(model_, inputs_):
                from .backend import spyre_backend

                return spyre_backend(model_, inputs_, options=self._spyre_options)
            return super().__call__(model_, inputs_, **kwargs)

    _TorchCompileInductorWrapper.__module__, _TorchCompileInductorWrapper.__qualname__ = original.__module__, original.__qualname__
    return _TorchCompileInductorWrapper
