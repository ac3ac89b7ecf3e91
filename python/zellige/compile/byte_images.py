"""Images of bytes in a graph: on the CPU they have an arithmetic of their own, in whole numbers, so that they stay one
operator where PyTorch takes the one for floats apart."""

from __future__ import annotations

import functools

import torch


def of_floats(rule):
    """A decomposition that leaves images of bytes whole."""

    @functools.wraps(rule)
    def decomposed(input, *args, **kwargs):
        return rule(input, *args, **kwargs) if input.is_floating_point() else NotImplemented

    return decomposed


def _sized(plain):
    """The operator that is given a size, in place of the one that may be given scales."""
    from torch._decomp.decompositions import upsample_compute_output_size

    def run(input, size, align_corners, scales=None):
        size = upsample_compute_output_size(input.size(), size, scales)
        return plain(input, size, align_corners, *(scales or (None, None)))

    return run


def _below_autograd(plain):
    def run(*args, **kwargs):
        with torch._C._AutoDispatchBelowAutograd():
            return plain(*args, **kwargs)

    return run


def _chosen(rule, otherwise):
    @functools.wraps(rule)
    def kept(input, *args, **kwargs):
        bytes_of_ours = input.device.type == "spyre" and not input.is_floating_point()
        return (otherwise if bytes_of_ours else rule)(input, *args, **kwargs)

    return kept


def keep_whole():
    """Keeps images of bytes whole where PyTorch takes the operator apart before a backend is asked; gives the function
    that undoes it."""
    before = []
    for packet in (torch.ops.aten.upsample_bilinear2d, torch.ops.aten.upsample_bicubic2d):
        for op, otherwise in ((packet.vec, _sized(packet.default)), (packet.default, _below_autograd(packet.default))):
            before.append((op, dict(op.py_kernels)))
            for key, rule in list(op.py_kernels.items()):
                op.py_kernels[key] = _chosen(rule, otherwise)
            op._dispatch_cache.clear()

    def undo() -> None:
        for op, kernels in before:
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()

    return undo
