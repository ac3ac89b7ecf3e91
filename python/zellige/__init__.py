"""Tensor layouts: where every element lives, and how to move it somewhere else.

>>> import zellige
>>> zellige.Layout("S[(8,64):(64,1)]").apply(1, 2)
[{'m': 66}]

Needs numpy alone. With PyTorch installed, ``import torch`` registers the simulated device "spyre"
(see :mod:`zellige.spyre`); the environment variable ``ZELLIGE_AUTOLOAD=0`` keeps it from doing so.
"""

from typing import Any as _Any

import zellige_torch_spyre as _  # noqa: F401 - installs the finder of torch_spyre in checkouts on PYTHONPATH

from ._drawing import Drawing, draw
from ._native import (
    DataFormats,
    DeviceError,
    ElementArrangement,
    InternalError,
    Layout,
    LayoutError,
    SpyreTensorLayout,
    __version__,
    ask,
    explain,
    instruction_set,
    set_thread_pool,
    thread_pool,
)
from ._relayout import relayout
from ._torch_copies import torch_copies


def report(compiled: _Any = None) -> _Any:
    """What ``torch.compile`` did last; the report of its backend "spyre"."""
    from .compile import last_report

    return last_report()


__all__ = [
    "DataFormats",
    "DeviceError",
    "Drawing",
    "ElementArrangement",
    "InternalError",
    "Layout",
    "LayoutError",
    "SpyreTensorLayout",
    "__version__",
    "ask",
    "draw",
    "explain",
    "instruction_set",
    "relayout",
    "report",
    "set_thread_pool",
    "thread_pool",
    "torch_copies",
]
