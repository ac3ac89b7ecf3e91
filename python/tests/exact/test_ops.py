"""Every operator against PyTorch's CPU, with float32 kept: only the order of sums may differ."""

import pytest
import torch
from cases import CASES, compare

HALVES = ("halves", "float16", "bfloat16", "conversions")


@pytest.mark.parametrize("name, function, operands, fallback, scale", CASES, ids=[c[0] for c in CASES])
def test_operator(name, function, operands, fallback, scale):
    torch.spyre.reset_fallbacks()
    # 16-bit tensors are stored in the device's format in this mode too.
    tolerance = 2e-2 if any(h in name for h in HALVES) else 1e-5
    assert compare(function, operands, tolerance * scale) is None
    assert bool(torch.spyre.fallbacks()) == fallback
