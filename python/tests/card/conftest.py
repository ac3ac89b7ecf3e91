"""These tests are about the card's own narrow storage: float32 in 16 bits, int64 in 32. The variables are
read when PyTorch is imported, so they run in a process of their own: `pytest python/tests/card`."""

import os
import sys

import pytest

NARROW = {"ZELLIGE_FP32": "downcast", "ZELLIGE_INT64": "downcast"}

if "torch" in sys.modules and any(os.environ.get(name) != value for name, value in NARROW.items()):
    raise pytest.UsageError("PyTorch was imported before, with the device stored otherwise: run `pytest python/tests/card` on its own")
else:
    os.environ.update(NARROW)
