"""Names of the original's native module."""

from zellige import DataFormats, ElementArrangement, SpyreTensorLayout  # noqa: F401
from zellige.spyre.layouts import empty_with_layout


def get_spyre_tensor_layout(tensor):
    """How a tensor of the device lies."""
    layout = tensor.device_tensor_layout()
    if layout is None:
        raise RuntimeError(f"the tensor is on {tensor.device}, not on the device spyre")
    return layout


def spyre_empty_with_layout(size, stride, dtype, layout):
    """A tensor of zeros that lies as said."""
    return empty_with_layout(size, layout, dtype=dtype, stride=stride)


def get_elem_in_stick(dtype) -> int:
    """Elements of a dtype in a stick of 128 bytes."""
    return SpyreTensorLayout([1], dtype).elems_per_stick()


def get_downcast_warning() -> bool:
    """Whether the first float32 tensor on its way to the device warns."""
    import torch

    return torch.spyre.get_downcast_warning()


def set_downcast_warning(enabled: bool) -> None:
    """Turns that warning on or off."""
    import torch

    torch.spyre.set_downcast_warning(enabled)
