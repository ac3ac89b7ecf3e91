"""PyTorch's module database against the CPU: a sample of it; test_known.py has all of it."""

import random

import database
import known
import modules
import pytest

database.quiet()

DRAWN, SEED = 60, 15


def _drawn():
    bad = known.entries("modules")
    rows = [at for at in modules.entries() if (at[0], database.short(at[1]), at[2]) not in bad]
    return random.Random(SEED).sample(rows, DRAWN)


@pytest.mark.parametrize("row", _drawn(), ids=lambda row: f"{row[0]}-{database.short(row[1])}-{row[2]}")
def test_sample(row):
    choice = modules.chosen(*row)
    if not choice:
        return
    outcome = modules.check(*row, choice[len(row[0]) % len(choice)])
    assert outcome.kind in ("native", "cpu", "skip"), f"sample {outcome.sample}: {outcome.kind}: {outcome.reason}"
