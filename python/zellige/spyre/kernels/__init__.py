"""The device's kernels of PyTorch's operators.

Most are rows of a table in Rust. The files of this package have the others, by subject: each function checks and
rearranges arguments, and what happens to elements happens on the card.
"""

from __future__ import annotations

import torch

from ... import _native
from ..dispatcher import register
from . import composites, copies, decompositions, encoder_layers, indexing, nested
from . import arithmetic, convolutions, factories, norms, random_numbers  # noqa: F401 - each adds its kernels
from .registration import KERNELS, refusable

# Operators that do not fall back to the CPU when the card refuses: they make, move or resize memory of the device.
_FINAL = {
    "empty.memory_format", "empty_strided", "resize_", "set_", "set_.source_Tensor", "set_.source_Storage",
    "set_.source_Storage_storage_offset", "_copy_from", "_copy_from_and_resize", "_to_copy", "clone",
    "convolution_overrideable", "convolution_backward_overrideable",
}


# Rows of the table that add to elements, or multiply them, in place.
_ACCUMULATING = {
    "scatter_add", "scatter_add_", "scatter_add.out", "scatter_reduce.two", "scatter_reduce_.two",
    "scatter_reduce.two_out", "index_add", "index_add_", "index_add.out",
}


def _accumulated(kernel):
    return lambda *args, **kwargs: indexing.wrapped(kernel(*args, **kwargs))


def _clamped(kernel):
    def clamp(self, *bounds, **kwargs):
        if not self.dtype.is_floating_point:
            for bound in (*bounds, *kwargs.values()):
                if bound is not None:
                    # A float bound makes the result of an integer tensor a float.
                    self = self.to(torch.result_type(self, bound))
        return kernel(self, *bounds, **kwargs)

    return clamp


# Rows of the table whose arguments or results are adapted.
_AROUND = {
    **{name: _accumulated for name in _ACCUMULATING},
    "clamp": _clamped, "clamp_min": _clamped, "clamp_max": _clamped,
}


def install() -> None:
    """Registers every kernel of the device."""
    for name, kernel in _native.kernels():
        if name not in KERNELS:
            register(name, torch._disable_dynamo(_AROUND[name](kernel)) if name in _AROUND else kernel)
    for name, function in KERNELS.items():
        if name not in _FINAL and not isinstance(function, type(_native.view)):
            function = refusable(name, function)
        register(name, function)
    register("_copy_from", copies.copy_from_lazy, "Negative", "Conjugate")
    decompositions.install()
    encoder_layers.install()
    composites.install()
    nested.install()
