"""PyTorch's own lists of operators and modules, and what every comparison with the CPU needs."""

from __future__ import annotations

import logging
import os
import random
import sys
import types
import unittest
import warnings

# Read when PyTorch is imported.
os.environ.setdefault("ZELLIGE_DEVICES", "2")

import torch  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only  # noqa: E402,F401

# PyTorch's lists import its test helpers, and those a package that only their own tests call.
if "expecttest" not in sys.modules:
    try:
        import expecttest  # noqa: F401
    except ImportError:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
# What the card does not store: a sample that takes or gives one of these is a refusal that the
# documentation promises, and counts for no operator.
UNSTORED = (torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64)
# True once the strides of every result are those of the CPU: a difference is then wrong.
STRIDES_CHECKED = False
# True once int64 is stored in 64 bits: samples with larger numbers are then compared too.
WIDE_INTEGERS = True
# Relative error allowed. Formats of 16 bits have 9 bits of fraction on the card.
TOLERANCE = {torch.float32: 3e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2}

LONG = os.environ.get("ZELLIGE_LONG") == "1"


def short(dtype) -> str:
    return str(dtype).removeprefix("torch.")


def quiet() -> None:
    """A walk meets every warning that there is; none of them is a finding."""
    warnings.simplefilter("ignore")
    # Sizes marked as changing that a program fixes are written to stderr with their whole history.
    logging.getLogger("torch._guards").setLevel(logging.CRITICAL)


def seeded(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy

        numpy.random.seed(seed % 2**32)
    except ImportError:
        pass


def tensors(value) -> list:
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]


def unstored(value) -> bool:
    """Whether a dtype is in it that the card does not store."""
    return any((x.dtype if isinstance(x, torch.Tensor) else x) in UNSTORED for x in tree_leaves(value) if isinstance(x, (torch.Tensor, torch.dtype)))


def past_32_bits(value) -> bool:
    for t in tensors(value):
        if t.dtype is torch.int64 and t.layout is torch.strided and t.numel() and (t.max() > 2**31 - 1 or t.min() < -(2**31)):
            return True
    return False


def settled(value):
    """The same, with floats of 16 bits rounded to what the card stores: both sides start from one number."""

    def one(t):
        if t.dtype not in (torch.float16, torch.bfloat16) or t.layout is not torch.strided or not t.numel():
            return t
        try:
            stored = t.detach().to("spyre").cpu()
        except (RuntimeError, NotImplementedError, TypeError):
            return t
        finite = t.detach().isfinite()
        if not torch.equal(stored.isfinite(), finite):
            return t
        out = t.detach().clone()
        out.copy_(torch.where(finite, stored, out))
        return out.requires_grad_(t.requires_grad)

    return tree_map_only(torch.Tensor, one, value)


def placed(value, device: str):
    """Copies of all tensors on a device; a device that is named becomes that one."""

    def one(x):
        if isinstance(x, torch.Tensor):
            return x.detach().clone().to(device).requires_grad_(x.requires_grad)
        if isinstance(x, torch.device) and x.type == "cpu":
            return torch.device(device)
        return device if x == "cpu" and isinstance(x, str) else x

    return tree_map(one, value)


def widened(value):
    """Copies with floats in float64."""

    def one(x):
        if isinstance(x, torch.Tensor) and x.dtype in TOLERANCE:
            return x.detach().to(torch.float64).requires_grad_(x.requires_grad)
        if isinstance(x, torch.dtype) and x in TOLERANCE:
            return torch.float64
        return x.detach().clone() if isinstance(x, torch.Tensor) else x

    return tree_map(one, value)


def _near(want, got, dtype, scale=0.0):
    tolerance = TOLERANCE[dtype]
    want, got = want.double(), got.double()
    largest = want[want.isfinite()].abs().max().item() if want.isfinite().any() else 0.0
    # Sums of many terms lose by the largest of them.
    if dtype is torch.float32:
        slack = tolerance * max(min(largest, 1e3) * 0.1, 0.3)
    else:
        slack = tolerance * max(largest, scale / 4, 1e-3)
    near = torch.isclose(got, want, rtol=tolerance, atol=slack, equal_nan=True)
    # What leaves the range of the one format may be an infinity in the other.
    top = torch.finfo(dtype).max
    return near | ((want.abs() >= top * 0.99) & (got.abs() >= top * 0.99) & (want.sign() == got.sign()))


def largest(value) -> float:
    """The largest finite number in operands: results that are differences of such lose by its last bit."""
    found = [t.detach().double().nan_to_num(posinf=0, neginf=0).abs().max().item() for t in tensors(value) if t.dtype in TOLERANCE and t.numel() and t.layout is torch.strided]
    return min(max(found, default=0.0), 1e3)


def difference(want, got, wide=None, values=True, scale=0.0, loose=False, on="spyre") -> str | None:
    """The first difference between results of the CPU and of the device. `wide` makes the results in
    float64, for what is nearer to the truth than the CPU in few bits. `loose` is for float32 that was
    computed from 16 bits."""
    want, got = tree_leaves(want), tree_leaves(got)
    if len(want) != len(got):
        return f"{len(got)} results, not {len(want)}"
    truth = None
    for i, (w, g) in enumerate(zip(want, got)):
        at = f"result {i}: " if len(want) > 1 else ""
        if not isinstance(w, torch.Tensor):
            if isinstance(w, float) and isinstance(g, float) and values:
                if not _near(torch.tensor(w), torch.tensor(g), torch.float16).all():
                    return f"{at}{g}, not {w}"
            elif isinstance(w, (bool, int, str, type(None))) and values and w != g:
                return f"{at}{g!r}, not {w!r}"
            continue
        if not isinstance(g, torch.Tensor):
            return f"{at}{type(g).__name__}, not a tensor"
        if w.dtype != g.dtype:
            return f"{at}dtype {short(g.dtype)}, not {short(w.dtype)}"
        if w.shape != g.shape:
            return f"{at}shape {list(g.shape)}, not {list(w.shape)}"
        if w.layout is not g.layout:
            return f"{at}layout {g.layout}, not {w.layout}"
        if not values or w.layout is not torch.strided:
            continue
        if g.device.type != on:
            return f"{at}on {g.device}"
        if w.dtype in (torch.uint8, torch.bool):
            # On the card they lie in wider words, where a number may hide that the CPU would not see.
            w, g = w.to(torch.int32), g.detach().to(torch.int32)
        w, g = w.detach(), g.detach().cpu()
        near = _near(w, g, torch.float16 if loose and w.dtype is torch.float32 else w.dtype, scale) if w.dtype in TOLERANCE else w == g
        if not near.all() and wide is not None and w.dtype in TOLERANCE:
            if truth is None:
                try:
                    truth = tree_leaves(wide())
                except Exception:
                    truth = ()
            if len(truth) == len(want) and isinstance(truth[i], torch.Tensor) and truth[i].shape == w.shape:
                exact = truth[i].detach().double()
                missed = (w.double() - exact).abs()
                missed = missed[missed.isfinite()].max().item() if missed.isfinite().any() else 0.0
                # As near as the CPU is itself, up to the order of sums.
                near = near | _near(exact, g, w.dtype, scale) | ((g.double() - exact).abs() <= 4 * missed)
        if not near.all():
            where = tuple(near.logical_not().nonzero()[0].tolist())
            return f"{at}{g[where].item()} at {list(where)}, not {w[where].item()}"
    return None


def strides_differ(want, got) -> bool:
    for w, g in zip(tensors(want), tensors(got)):
        if w.layout is torch.strided and w.shape == g.shape and w.numel() > 0:
            if any(n > 1 and a != b for n, a, b in zip(w.shape, w.stride(), g.stride())):
                return True
    return False


def message(error: BaseException) -> str:
    """An error as one line without what changes from run to run."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
