"""Every operator against PyTorch's CPU, in the formats of the card: 16 bits for float32 too."""

import pytest
import torch
from cases import CASES, compare

# Operands lose bits on their way: 2^-10 each, and functions amplify that.
TOLERANCE = 2e-2


@pytest.mark.parametrize("name, function, operands, fallback, scale", CASES, ids=[c[0] for c in CASES])
def test_operator(name, function, operands, fallback, scale):
    torch.spyre.reset_fallbacks()
    assert compare(function, operands, TOLERANCE * scale) is None
    fell = list(torch.spyre.fallbacks())
    assert bool(fell) == fallback, f"on the CPU: {fell}"
