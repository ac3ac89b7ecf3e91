"""Names of the original's native module."""

from zellige import DataFormats, ElementArrangement, SpyreTensorLayout  # noqa: F401
from zellige.spyre import layouts as _layouts
from zellige.spyre.layouts import get_device_dtype, to_with_layout  # noqa: F401
from zellige.spyre.streams import current_stream, default_stream  # noqa: F401

# Bytes of the unit in which the card moves data.
BYTES_IN_STICK = 128


def get_spyre_tensor_layout(tensor):
    """The device layout of a tensor."""
    layout = tensor.device_tensor_layout()
    if layout is None:
        raise RuntimeError(f"the tensor is on {tensor.device}, not on the device spyre")
    return layout


def spyre_empty_with_layout(size, stride, dtype, layout):
    """A tensor of zeros in the given layout."""
    return _layouts.empty_with_layout(size, layout, dtype=dtype, stride=stride)


def empty_with_layout(size, layout, dtype=None, device=None, pin_memory=None, memory_format=None):
    """A tensor of zeros in the given layout, with row-major strides."""
    import torch

    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        raise ValueError(f"{memory_format} beside a device layout; accepted is contiguous_format")
    return _layouts.empty_with_layout(size, layout, dtype=dtype, device=device)


def spyre_empty_reserved(size, stride, dtype, dim, max):
    """A tensor of zeros with memory for the largest size of a dimension; the strides say in which order its dimensions
    lie."""
    import torch
    from zellige.spyre.dynamic import _Request

    try:
        like = torch.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
        return _Request(list(size), dtype, dynamic={dim: {"max": max}}, like=like).make(None)
    except (ValueError, IndexError) as error:
        raise RuntimeError(str(error)) from None


def get_reserved_dims(tensor):
    """The sizes that the dimensions of a tensor can take in its reserved memory; None of a tensor without a reservation, and of
    one on another device."""
    import torch
    from zellige.spyre import dynamic_sizes

    return dynamic_sizes(tensor) if isinstance(tensor, torch.Tensor) else None


def get_elem_in_stick(dtype) -> int:
    """Elements of a dtype in a stick of 128 bytes."""
    return SpyreTensorLayout([1], dtype).elems_per_stick()


def synchronize(device=None) -> None:
    """Waits for what a card does; for all cards where none is named."""
    import torch

    for card in range(torch.spyre.device_count()) if device is None else [device]:
        torch.spyre.synchronize(card)


def get_downcast_warning() -> bool:
    """Whether the first float32 tensor on its way to the device warns."""
    import torch

    return torch.spyre.get_downcast_warning()


def set_downcast_warning(enabled: bool) -> None:
    """Turns that warning on or off."""
    import torch

    torch.spyre.set_downcast_warning(enabled)


# They need Inductor, which costs an import.
_LAUNCHER = {
    "JobPlan": "job_plan",
    "prepare_kernel": "job_plan",
    "launch_jobplan": "job_plan",
    "SymbolicArg": "symbolic_args",
    "SymbolicArgKind": "symbolic_args",
}


def __getattr__(name: str):
    import importlib

    if name == "_resolve_symbolic_args":
        from .execution.symbolic_args import resolve_symbolic_args

        return resolve_symbolic_args
    if name in _LAUNCHER:
        return getattr(importlib.import_module(f".execution.{_LAUNCHER[name]}", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
