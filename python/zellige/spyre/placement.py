"""Memories of the card: device memory, and the scratchpads (LX) of its cores.

Tensors of PyTorch are in device memory. Inside a compiled program a result may stay in the scratchpads from the operation
that computes it to those that read it, a part of it on every core; :func:`place` asks for the one or the other.
"""

from __future__ import annotations

import torch

SPACES = ("lx", "memory")


def place(tensor: torch.Tensor, space: str) -> torch.Tensor:
    """The tensor, in a memory of the card: ``"lx"`` or ``"memory"``.

    In a compiled function the compiler keeps to it: a tensor in ``"memory"`` is never kept in the scratchpads, and one in
    ``"lx"`` is there, or the compilation ends with a ValueError that says why it cannot be. Outside of compiled functions
    tensors are in device memory: ``"memory"`` gives the tensor itself, and ``"lx"`` is a RuntimeError.
    """
    if space not in SPACES:
        raise ValueError(f"there is no memory {space!r} on the card; accepted are 'lx' and 'memory'")
    if torch.compiler.is_compiling():
        return torch.ops.spyre.place(tensor, space)
    if tensor.device.type != "spyre":
        raise ValueError(f"the tensor is on {tensor.device}; tensors of the device spyre have a memory of the card")
    if space == "lx":
        raise RuntimeError(
            "tensors outside of compiled functions are in device memory: call torch.spyre.place(x, 'lx') inside a function "
            "that torch.compile compiles"
        )
    return tensor


def memory_space(tensor: torch.Tensor) -> str | None:
    """The memory of the card that a tensor is in: ``"memory"``, and None for a tensor of another device. What is in the
    scratchpads is inside of compiled programs: see ``zellige.compile.buffers()``."""
    return "memory" if tensor.device.type == "spyre" else None
