"""PyTorch's module database against the CPU: a sample of it, and with ZELLIGE_LONG=1 all of it."""

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


@pytest.mark.parametrize("row", sorted((*at, sample) for at, (kind, sample) in known.entries("modules").items() if kind != "crash")[:10], ids=str)
def test_known(row):
    """An entry that has become right leaves known.py."""
    name, dtype, form, sample = row
    outcome = modules.check(name, getattr(modules.torch, dtype), form, sample)
    assert outcome.kind in ("refused", "wrong"), f"it is right now: take it out of known.py ({outcome.kind})"


@pytest.mark.skipif(not database.LONG, reason="minutes; ZELLIGE_LONG=1")
def test_all():
    import walk

    assert known.changes("modules", walk.walk("modules")) == []
