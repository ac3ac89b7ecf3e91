"""Numbers beside tensors of integers and truths, on the CPU and on the card."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from database import WIDE_INTEGERS, difference, past_32_bits

NUMBERS = (-1, -3, 1, 2, 300, 70000, True, 2.0, 2.5, -0.5)


def _index(t):
    return torch.zeros(1, dtype=torch.int64, device=t.device)


FUNCTIONS = {
    **{n: getattr(torch, n) for n in "add sub mul div floor_divide remainder fmod eq ne lt le gt ge pow rsub bitwise_and bitwise_or bitwise_xor bitwise_left_shift".split()},
    "where": lambda t, s: torch.where(t > 0, t, s),
    "clamp below": lambda t, s: t.clamp(min=s),
    "clamp above": lambda t, s: t.clamp(max=s),
    "masked_fill": lambda t, s: t.masked_fill(t > 1, s),
    "fill": lambda t, s: t.clone().fill_(s),
    "full_like": torch.full_like,
    "add in place": lambda t, s: t.clone().add_(s),
    "multiply in place": lambda t, s: t.clone().mul_(s),
    "scaled": lambda t, s: torch.add(t, t, alpha=s),
    "pad": lambda t, s: F.pad(t, (1, 1), value=s),
    "scatter": lambda t, s: t.scatter(0, _index(t), s),
    "index_fill": lambda t, s: t.index_fill(0, _index(t), s),
    "threshold": lambda t, s: torch.threshold(t, 1, s),
    "divided by": lambda t, s: s // t.clamp(min=1),
    "modulo": lambda t, s: s % t.clamp(min=1),
    "sum of products": lambda t, s: (t * s).sum(),
    "assigned": lambda t, s: (t.__setitem__(slice(0, 2), s), t)[1],
}
# (dtype, function, number) that are wrong today: truths are scaled as integers. Each leaves this list when it is right.
KNOWN = {(torch.bool, "scaled", -1)}


def differs(function, dtype, number) -> str | None:
    """The first difference, where the CPU has a result."""
    values = torch.tensor([0, 1, 3, 100]).to(dtype)
    try:
        want = function(values.clone(), number)
    except (RuntimeError, TypeError):
        return None
    if not WIDE_INTEGERS and past_32_bits(want):
        return None
    return difference(want, function(values.to("spyre"), number))
