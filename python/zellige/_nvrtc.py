"""Where Python packages keep NVRTC, the compiler of kernels for moves on a GPU."""

from __future__ import annotations

import os
import sys

# PyPI's packages of NVIDIA, for CUDA 13 and 12, and what wheels of PyTorch bring along.
_INSIDE = ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "torch/lib")
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH")


def folders() -> list[str]:
    """Folders that may hold libnvrtc, those of the Python path first; each exists."""
    found = []
    for top in (*sys.path, *(getattr(sys.modules.get("torch"), "__path__", ()))):
        found += [os.path.join(top or ".", *inside.split("/")) for inside in _INSIDE]
    for top in (*(os.environ.get(name) for name in _TOOLKITS), "/usr/local/cuda"):
        if top:
            found += [os.path.join(top, "lib64"), os.path.join(top, "lib")]
    return [folder for folder in dict.fromkeys(found) if os.path.isdir(folder)]
