"""PyTorch's operator database against the CPU: a sample of it, and with ZELLIGE_LONG=1 all of it."""

import random

import database
import known
import operators
import pytest

database.quiet()

# How many are drawn, and from which seed.
DRAWN, KNOWN_DRAWN, SEED = 250, 20, 15


def _drawn():
    """Samples of entries that are expected to be right, spread over forms and dtypes."""
    r = random.Random(SEED)
    bad = known.entries("operators")
    groups: dict = {}
    for at in operators.entries():
        if (at[0], database.short(at[1]), at[2]) not in bad:
            groups.setdefault((at[1], at[2]), []).append(at)
    rows = []
    # Compilations take most of the time.
    weights = [0.3 if form == "compiled" else 1 for _, form in groups]
    for group in r.choices(list(groups), weights, k=DRAWN):
        rows.append((*r.choice(groups[group]), r.randrange(1000)))
    return rows


def _name(row):
    return "-".join(database.short(part) if not isinstance(part, (str, int)) else str(part) for part in row)


@pytest.mark.parametrize("row", _drawn(), ids=_name)
def test_sample(row):
    name, dtype, form, draw = row
    choice = operators.chosen(name, dtype, form)
    if not choice:
        return
    outcome = operators.check(name, dtype, form, choice[draw % len(choice)])
    assert outcome.kind in ("native", "cpu", "skip"), f"sample {outcome.sample}: {outcome.kind}: {outcome.reason}"


def _still_known():
    rows = sorted((*at, sample) for at, (kind, sample) in known.entries("operators").items() if kind != "crash")
    return random.Random(SEED).sample(rows, min(KNOWN_DRAWN, len(rows)))


@pytest.mark.parametrize("row", _still_known(), ids=_name)
def test_known(row):
    """An entry that has become right leaves known.py."""
    name, dtype, form, sample = row
    outcome = operators.check(name, getattr(operators.torch, dtype), form, sample)
    assert outcome.kind in ("refused", "wrong"), f"it is right now: take it out of known.py ({outcome.kind})"


@pytest.mark.skipif(not database.LONG, reason="a quarter of an hour; ZELLIGE_LONG=1")
def test_all():
    import walk

    assert known.changes("operators", walk.walk("operators")) == []
