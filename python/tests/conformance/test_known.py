"""The entries of known.py are still wrong, and with ZELLIGE_LONG=1 all others of PyTorch's databases are right."""

import random

import database
import known
import modules
import operators
import pytest
import torch
import walk

database.quiet()

CHECKS = {"operators": operators.check, "modules": modules.check}
DRAWN, SEED = 20, 15


def _still_known():
    """Some entries of each database, with the numbers of their samples."""
    for part in CHECKS:
        rows = sorted((*at, sample) for at, (kind, sample) in known.entries(part).items() if kind != "crash")
        yield from ((part, *row) for row in random.Random(SEED).sample(rows, min(DRAWN, len(rows))))


@pytest.mark.parametrize("row", _still_known(), ids=lambda row: "-".join(map(str, row)))
def test_known(row):
    """An entry that has become right leaves known.py."""
    part, name, dtype, form, sample = row
    outcome = CHECKS[part](name, getattr(torch, dtype), form, sample)
    assert outcome.kind in ("refused", "wrong"), f"it is right now: take it out of known.py ({outcome.kind})"


@pytest.mark.skipif(not database.LONG, reason="a quarter of an hour; ZELLIGE_LONG=1")
@pytest.mark.parametrize("part", CHECKS)
def test_all(part):
    assert known.changes(part, walk.walk(part)) == []
