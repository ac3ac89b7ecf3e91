"""Random programs on the CPU and on the card: some seeds, and with ZELLIGE_LONG=1 all of them."""

import database
import known
import programs
import pytest

database.quiet()

EAGER, COMPILED = 60, 25
MODES = programs.Compiled.MODES

# Each compiled program with one way to compile it; the long run has all three.
_ROWS = [("eager", seed, "eager") for seed in range(EAGER)] + [("compiled", seed, MODES[seed % 3]) for seed in range(COMPILED)]
_BAD = known.entries("programs")


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]}")
def test_sample(row):
    outcome, reason, source = programs.check(*row)
    if (row[0], str(row[1]), row[2]) in _BAD:
        assert outcome in ("refused", "wrong"), f"it is right now: take it out of known.py\n{source}"
    else:
        assert outcome in ("native", "cpu", "skip"), f"{outcome}: {reason}\n\n{source}"


@pytest.mark.skipif(not database.LONG, reason="minutes; ZELLIGE_LONG=1")
def test_all():
    import walk

    assert known.changes("programs", walk.walk("programs")) == []
