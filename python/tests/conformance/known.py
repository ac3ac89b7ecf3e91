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
operators | refused | PyTorch's parts of it compute in float64
  logspace float16: compiled 0
  logspace float32: compiled 0
  logspace int64: compiled 0
  logspace.tensor_overload float16: compiled 0
  logspace.tensor_overload float32: compiled 0
  logspace.tensor_overload int64: compiled 0
operators | refused | the mask is the smallest or largest int64, which 32 bits do not hold
  masked.amax int64: forward 1, strided 32
  masked.amin int64: forward 1, strided 32
  masked.argmax int64: forward 1, strided 5
  masked.argmin int64: forward 1, strided 5
  masked.logsumexp int64: forward 1, strided 32
operators | wrong | an exponential on the way is past 2^33: NaN in 16 bits of the card
  nn.functional.soft_margin_loss bfloat16: forward 1, strided 1
operators | wrong | infinities, and numbers past 2^33, are NaN in 16 bits of the card
  _segment_reduce.lengths float16: strided 49
  _segment_reduce.offsets float16: strided 49
  atanh bfloat16: forward 0, inplace 0, out 0, strided 0
  erfinv bfloat16: forward 0, inplace 0, out 0, strided 0
  frexp bfloat16: forward 4, out 4, strided 4
  frexp float16: forward 4, out 4, strided 4
  hypot bfloat16: forward 9, inplace 9, out 9, strided 9
  hypot float16: forward 9, inplace 9, out 9, strided 9
  log1p bfloat16: forward 0, inplace 0, out 0, strided 0
  nn.functional.soft_margin_loss float16: forward 1, strided 1
  polygamma.polygamma_n_0 bfloat16: forward 4, strided 4
  polygamma.polygamma_n_0 float16: forward 1, inplace 1, out 1, strided 1
  polygamma.polygamma_n_1 bfloat16: forward 4, strided 4
  polygamma.polygamma_n_2 bfloat16: forward 4, strided 4
  polygamma.polygamma_n_3 bfloat16: forward 4, strided 4
  polygamma.polygamma_n_4 bfloat16: forward 4, strided 4
  special.entr bfloat16: forward 0, out 0, strided 0
  special.entr float16: forward 0, out 0, strided 0, compiled 0
  special.polygamma.special_polygamma_n_0 bfloat16: forward 4, strided 4
  special.polygamma.special_polygamma_n_0 float16: forward 1, out 1, strided 1
operators | wrong | masks are infinities, and 16 bits of the card have none: NaN comes back
  masked.amax bfloat16: forward 22, strided 29
  masked.amax float16: forward 22, strided 29
  masked.amin bfloat16: forward 22, strided 29
  masked.amin float16: forward 22, strided 29
  masked.argmax bfloat16: forward 18, strided 18
  masked.argmax float16: forward 18, strided 18
  masked.argmin bfloat16: forward 18, strided 18
  masked.argmin float16: forward 18, strided 18
  masked.log_softmax bfloat16: forward 1, strided 5
  masked.log_softmax float16: forward 1, strided 5
  masked.logaddexp bfloat16: forward 1, strided 1
  masked.logaddexp float16: forward 1, strided 1
  masked.logsumexp bfloat16: forward 22, strided 29
  masked.logsumexp float16: forward 22, strided 29
  masked.norm bfloat16: forward 19, strided 33
  masked.norm float16: forward 19, strided 33
  masked.softmax bfloat16: forward 1, strided 5
  masked.softmax float16: forward 1, strided 5
  masked.softmin bfloat16: forward 1, strided 5
  masked.softmin float16: forward 1, strided 5
operators | wrong | square has no gradient
  square bfloat16: backward 0
  square float16: backward 0
  square float32: backward 0
operators | wrong | square of truths stays bool
  square bool: forward 0, strided 0
operators | wrong | the compiler has its own second result, in another shape and dtype
  torch.ops.aten._scaled_dot_product_flash_attention_for_cpu float16: compiled 0
  torch.ops.aten._scaled_dot_product_flash_attention_for_cpu float32: compiled 0
operators | wrong | the compiler takes a float without a fraction (2.0) for an integer
  native_dropout_backward int64: compiled 0
  nn.functional.margin_ranking_loss int64: compiled 0
programs | refused | compiled: a result that is an expanded argument is read past its storage
  compiled 21: static 0, dynamic 0, marked 0
programs | wrong | compiled: a result that is a view of an argument has the offset of the first size
  compiled 69: dynamic 0
  compiled 76: static 0, dynamic 0, marked 0
programs | wrong | compiled: a result that is an expanded view is a copy
  compiled 12: static 0, dynamic 0, marked 0
programs | wrong | compiled: results that are views of one tensor are copies of each other
  compiled 51: static 0, dynamic 0, marked 0
  compiled 53: static 0, dynamic 0, marked 0
  compiled 59: static 0, dynamic 0, marked 0
  compiled 75: static 0, dynamic 0, marked 0
  compiled 79: static 0, dynamic 0, marked 0
"""
