"""How the device stores numbers, which is settled when PyTorch is imported: a folder of tests needs a process of its own."""

import os
import sys

import pytest

VARIABLES = ("ZELLIGE_FP32", "ZELLIGE_INT64", "ZELLIGE_PROFILE")


def want(folder: str, **wanted: str) -> None:
    """Sets the variables as a folder of tests wants them, or says that it is too late for that."""
    if "torch" in sys.modules and {n: os.environ[n] for n in VARIABLES if n in os.environ} != wanted:
        raise pytest.UsageError(f"PyTorch was imported before, with numbers stored otherwise: run `pytest python/tests/{folder}` on its own")
    for name in VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(wanted)
