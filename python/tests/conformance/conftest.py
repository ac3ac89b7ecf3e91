"""These tests compare with PyTorch on the CPU, as the device is by default: float32 and int64 are kept as
they are. How they are stored is settled when PyTorch is imported, so they run in a process of their own:
`pytest python/tests/conformance`."""

import os
import sys

import pytest

NARROW = ("ZELLIGE_FP32", "ZELLIGE_INT64", "ZELLIGE_PROFILE")

if "torch" in sys.modules and any(name in os.environ for name in NARROW):
    raise pytest.UsageError("PyTorch was imported before, with the device stored otherwise: run `pytest python/tests/conformance` on its own")
else:
    for name in NARROW:
        os.environ.pop(name, None)
