"""PyTorch's operator database against the CPU: a sample of it; test_known.py has all of it."""

import random

import database
import known
import operators
import pytest

database.quiet()

# How many are drawn, and from which seed.
DRAWN, SEED = 250, 15


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
