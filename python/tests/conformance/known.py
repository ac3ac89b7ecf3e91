"""What is known to be wrong or refused today, each with its reason.

Tests fail when an entry appears that is not here, and when one that is here has become right: the list can
only shrink. `python write.py --known` writes it anew.
"""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=None)
def _read() -> dict:
    found: dict = {}
    for line in KNOWN.splitlines():
        if not line.strip():
            continue
        if not line.startswith(" "):
            part, kind, reason = (piece.strip() for piece in line.split("|", 2))
            continue
        at, forms = line.rsplit(":", 1)
        name, dtype = at.split()
        for form in forms.split(","):
            form, sample = form.split()
            found.setdefault(part, {})[name, dtype, form] = (kind, int(sample), reason)
    return found


def entries(part: str) -> dict:
    """The entries of `operators`, `modules` or `programs`: (name, dtype, form) to (outcome, number of the sample)."""
    return {at: (kind, sample) for at, (kind, sample, _) in _read().get(part, {}).items()}


def reasons(part: str) -> dict:
    return {at: reason for at, (_, _, reason) in _read().get(part, {}).items()}


def changes(part: str, outcomes: list) -> list:
    """What a walk found that this list does not say, in words."""
    expected, out = entries(part), []
    for line in outcomes:
        at, kind = tuple(line["entry"]), line["kind"]
        bad = kind in ("refused", "wrong", "crash")
        if bad and at not in expected:
            out.append(f"new: {' '.join(at)}, sample {line['sample']}: {kind}: {line['reason']}" + ("\n" + line["source"] if "source" in line else ""))
        elif bad and kind != expected[at][0]:
            out.append(f"{' '.join(at)} was {expected[at][0]} and is {kind}: {line['reason']}")
        elif not bad and at in expected:
            out.append(f"right now, to be taken out of known.py: {' '.join(at)}")
    return out


# One line per reason (part, outcome, reason), then its entries (operator, dtype: form and number of the sample).
KNOWN = """
"""
