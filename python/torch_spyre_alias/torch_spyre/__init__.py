"""The names of torch-spyre, on Zellige's simulated card."""

import importlib.metadata as _metadata

try:
    _version = _metadata.version("torch-spyre")
except _metadata.PackageNotFoundError:
    _version = None
if _version is not None:
    raise ImportError(
        f"torch-spyre {_version} is installed, and this alias must not stand in its way: "
        "pip uninstall zellige-torch-spyre-alias"
    )

import zellige.spyre as _spyre  # noqa: E402

_spyre.register()

from zellige.spyre import FallbackWarning, restickify, to_with_layout  # noqa: E402,F401

from . import _C  # noqa: E402,F401 - scripts say torch_spyre._C after a plain import


def _autoload() -> None:
    """What the original registers by; the device is there already."""


def make_spyre_module():
    """The device module."""
    import torch

    return torch.spyre
