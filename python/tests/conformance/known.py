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
operators | wrong | an exponential on the way is past 2^32, which is the last number of 16 bits of the card
  nn.functional.soft_margin_loss bfloat16: forward 1, strided 1
  nn.functional.soft_margin_loss float16: forward 1, strided 1
operators | wrong | an infinity beside a NaN: 16 bits of the card have no infinity
  hypot bfloat16: forward 9, inplace 9, out 9, strided 9
  hypot float16: forward 9, inplace 9, out 9, strided 9
operators | wrong | numbers past 2^32 are infinities in 16 bits of the card
  polygamma.polygamma_n_0 bfloat16: forward 4, strided 4
  polygamma.polygamma_n_1 bfloat16: forward 4, strided 4
  polygamma.polygamma_n_2 bfloat16: forward 4, strided 4
  polygamma.polygamma_n_3 bfloat16: forward 4, strided 4
  polygamma.polygamma_n_4 bfloat16: forward 4, strided 4
  special.polygamma.special_polygamma_n_0 bfloat16: forward 4, strided 4
operators | wrong | the compiler has its own second result, in another shape and dtype
  torch.ops.aten._scaled_dot_product_flash_attention_for_cpu float16: compiled 0
  torch.ops.aten._scaled_dot_product_flash_attention_for_cpu float32: compiled 0
operators | wrong | zero times an infinity is zero in 16 bits of the card, which have no infinity
  addcdiv bfloat16: forward 12, inplace 12, out 12, strided 12
  addcdiv float16: forward 12, inplace 12, out 12, strided 12
  addcmul bfloat16: forward 12, inplace 12, out 12, strided 12
  addcmul float16: forward 12, inplace 12, out 12, strided 12
"""
