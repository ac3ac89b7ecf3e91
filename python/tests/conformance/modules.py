"""PyTorch's module database on the CPU and on the card: results, buffers and gradients, in training and not."""

from __future__ import annotations

import copy
import functools

import torch
from database import STRIDES_CHECKED, difference, largest, message, placed, seeded, settled, short, strides_differ, tensors, unstored, widened
from operators import OUTCOMES, Outcome, _Draws, worst

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FORMS = ("train", "eval")
# Inputs of an entry that are taken, evenly from those that the database has.
SAMPLES = 8


@functools.lru_cache(maxsize=None)
def database() -> dict:
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def entries() -> list:
    """All modules in all dtypes: the list names float32 for most, and the CPU runs more."""
    return [(name, dtype, form) for name in database() for dtype in DTYPES for form in FORMS]


@functools.lru_cache(maxsize=4)
def samples(name, dtype, form) -> list:
    seeded(0)
    info = database()[name]
    try:
        return list(info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=form == "train"))
    except (RuntimeError, NotImplementedError):
        return []


def chosen(name, dtype, form) -> list:
    count = len(samples(name, dtype, form))
    return list(range(count)) if count <= SAMPLES else sorted({i * (count - 1) // (SAMPLES - 1) for i in range(SAMPLES)})


def _run(module, call):
    args, kwargs = call
    out = module(*args, **kwargs)
    results = [t for t in tensors(out) if t.requires_grad]
    leaves = [t for t in tensors(call) + list(module.parameters()) if t.requires_grad and t.is_leaf]
    buffers = list(module.buffers())
    if not results or not leaves:
        return out, buffers
    seeded(1)
    cotangents = [((torch.randn(r.shape) * 8).round() / 8).to(r.dtype).to(r.device) for r in results]
    return out, buffers, torch.autograd.grad(results, leaves, cotangents, allow_unused=True)


def check(name, dtype, form, index) -> Outcome:
    info, sample = database()[name], samples(name, dtype, form)[index]
    made, given = sample.constructor_input, sample.forward_input
    call = settled((list(given.args), dict(given.kwargs)))
    if unstored(call):
        return Outcome("skip")
    try:
        seeded(2)
        module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(form == "train")
        with torch.no_grad():
            for t in list(module.parameters()) + list(module.buffers()):
                t.copy_(settled(t.detach()))
        seeded(7)
        want = _run(copy.deepcopy(module), placed(call, "cpu"))
    except Exception:
        return Outcome("skip")
    torch.spyre.reset_fallbacks()
    try:
        seeded(7)
        got = _run(copy.deepcopy(module).to("spyre"), placed(call, "spyre"))
        ran = "cpu" if torch.spyre.fallbacks() else "native"
    except Exception as error:
        return Outcome("refused", message(error), sample=index)
    try:
        found = difference(want, got, wide=lambda: _run(copy.deepcopy(module).double(), widened(call)), scale=largest(call))
    except Exception as error:
        return Outcome("wrong", "the result cannot be read: " + message(error), sample=index)
    if found:
        with _Draws() as draws:
            _run(copy.deepcopy(module), placed(call, "cpu"))
        if draws.found:
            found = difference(want, got, values=False)
    strides = strides_differ(want[0], got[0])
    if not found and strides and STRIDES_CHECKED:
        found = "strides"
    return Outcome("wrong" if found else ran, found or "", strides, index)


def entry(name, dtype, form) -> dict:
    outcomes = [check(name, dtype, form, i) for i in chosen(name, dtype, form)]
    bad = worst(outcomes)
    counts = {kind: sum(o.kind == kind for o in outcomes) for kind in OUTCOMES}
    return dict(entry=[name, short(dtype), form], kind=bad.kind, reason=bad.reason, sample=bad.sample, counts=counts, strides=sum(o.strides for o in outcomes))
