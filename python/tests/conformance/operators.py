"""PyTorch's operator database on the CPU and on the card.

An entry is an operator, a dtype and a form: `forward`, `backward` (gradients with one random cotangent),
`inplace`, `out`, `strided` (operands that are not contiguous) and `compiled`. Every sample of an entry
has an outcome; that of the entry is the worst of them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from database import DTYPES, STRIDES_CHECKED, WIDE_INTEGERS, difference, largest, message, past_32_bits, placed, seeded, settled, short, strides_differ, tensors, tree_leaves, tree_map_only, unstored, widened

FORMS = ("forward", "backward", "inplace", "out", "strided", "compiled")
# Samples of an entry that a long walk takes, evenly from those that the database has.
SAMPLES = {"forward": 40, "backward": 12, "inplace": 8, "out": 8, "strided": 10, "compiled": 1}
# Samples that are looked at at all: some operators have thousands.
GENERATED = 150
# Each costs a compilation: one dtype of each kind.
COMPILED = (torch.float32, torch.float16, torch.int64)
# Best first; the outcome of an entry is the last one that a sample of it has.
OUTCOMES = ("skip", "native", "cpu", "refused", "wrong", "crash")
# Memory as it was found: nothing to compare but sizes.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_")
# PyTorch 2.15 writes past the end of other results on the CPU, or as if they were contiguous.
CONTIGUOUS_OUT = ("tril", "triu", "lu_unpack", "linalg.lu", "narrow_copy")
# Operators whose second tensor must be on the CPU wherever the first one is.
HOST_INDICES = ("tensor_split",)
# Which of equal elements comes first is not said: values are compared, and not where they came from.
TIED = ("sort", "argsort", "topk", "msort", "mode", "median", "nanmedian", "kthvalue")


@dataclasses.dataclass
class Outcome:
    kind: str
    reason: str = ""
    strides: bool = False  # whether they differ from those of the CPU
    sample: int = 0


@functools.lru_cache(maxsize=None)
def database() -> dict:
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name if not op.variant_test_name else f"{op.name}.{op.variant_test_name}": op for op in op_db}


@functools.lru_cache(maxsize=None)
def entries(forms=FORMS, dtypes=DTYPES) -> list:
    """All (operator, dtype, form) that PyTorch says the CPU has."""
    out = []
    for name, op in database().items():
        for dtype in dtypes:
            if dtype not in op.dtypes:
                continue
            for form in forms:
                if form == "backward" and not (dtype.is_floating_point and op.supports_autograd and dtype in op.backward_dtypes):
                    continue
                if form == "inplace" and op.inplace_variant is None or form == "out" and not op.supports_out:
                    continue
                if form == "compiled" and dtype not in COMPILED:
                    continue
                out.append((name, dtype, form))
    return out


@functools.lru_cache(maxsize=4)
def _samples(name, dtype, grad) -> list:
    seeded(0)
    op = database()[name]
    return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), GENERATED))


def samples(name, dtype, form) -> list:
    return _samples(name, dtype, form == "backward")


def chosen(name, dtype, form) -> list:
    """The numbers of the samples that a long walk takes."""
    count, limit = len(samples(name, dtype, form)), SAMPLES[form]
    return list(range(count)) if count <= limit else sorted({i * (count - 1) // (limit - 1) if limit > 1 else 0 for i in range(limit)})


def _holes(t):
    """What a strided tensor with the same elements lies in, and how to see it there."""
    if t.layout is not torch.strided or t.dim() == 0 or t.numel() < 2:
        return t, lambda base: base
    if t.dim() == 1:
        base = t.new_zeros(2 * t.shape[0] + 1)
        base[1::2] = t
        return base, lambda base: base[1::2]
    base = t.detach().transpose(0, -1).contiguous()
    return base, lambda base: base.transpose(0, -1)


def _strided(value, device):
    def one(t):
        base, view = _holes(t.detach())
        return view(base.clone().to(device)).requires_grad_(t.requires_grad)

    return tree_map_only(torch.Tensor, one, placed(value, "cpu") if device == "cpu" else _named(value, device))


def _named(value, device):
    """Devices named in arguments, without moving tensors."""
    from torch.utils._pytree import tree_map

    def one(x):
        if isinstance(x, torch.device) and x.type == "cpu":
            return torch.device(device)
        return device if isinstance(x, str) and x == "cpu" else x

    return tree_map(one, value)


def _gradients(op, call, process, seed=1):
    out = op(call[0], *call[1], **call[2])
    results = [t for t in tensors(process(out)) if t.requires_grad]
    leaves = [t for t in tensors(call) if t.requires_grad]
    if not results or not leaves:
        return out
    seeded(seed)
    cotangents = []
    for r in results:
        c = torch.randn(r.shape, dtype=torch.float32)
        if r.dtype in (torch.float16, torch.bfloat16):
            # In few bits, so that every format holds them exactly.
            c = (c * 8).round() / 8
        cotangents.append(c.to(r.dtype).to(r.device))
    gradients = torch.autograd.grad(results, leaves, cotangents, allow_unused=True)
    return out, gradients


def _runner(name, form, sample, index, want=None):
    """What one form does with (input, args, kwargs) on a device."""
    op = database()[name]
    if form == "backward":
        return lambda call, device: _gradients(op, call, sample.output_process_fn_grad)
    if form == "inplace":

        def inplace(call, device):
            out = op.inplace_variant(call[0], *call[1], **call[2])
            return out, call[0], out.data_ptr() == call[0].data_ptr()

        return inplace
    if form == "out":

        def into(call, device):
            def room(t):
                # Every other one is not contiguous either, and all of them hold something before.
                if index % 2 and t.dim() > 1 and name not in CONTIGUOUS_OUT:
                    return torch.full(t.shape[::-1], 1, dtype=t.dtype).to(device).permute(*range(t.dim() - 1, -1, -1))
                return torch.full(t.shape, 1, dtype=t.dtype).to(device)

            outs = tree_map_only(torch.Tensor, room, want)
            outs = tuple(outs) if isinstance(outs, (list, tuple)) else outs
            result = op(call[0], *call[1], **{**call[2], "out": outs})
            return result, outs

        return into
    if form == "compiled":

        def compiled(call, device):
            if device == "cpu":
                return op(call[0], *call[1], **call[2])
            torch._dynamo.reset()
            return torch.compile(lambda x, args, kwargs: op(x, *args, **kwargs), backend="spyre")(call[0], call[1], call[2])

        return compiled
    return lambda call, device: op(call[0], *call[1], **call[2])


def check(name, dtype, form, index) -> Outcome:
    """One sample on the CPU and on the card."""
    op = database()[name]
    sample = samples(name, dtype, form)[index]
    if form == "inplace" and sample.broadcasts_input:
        return Outcome("skip")
    call = (sample.input, list(sample.args), dict(sample.kwargs))
    if unstored(call) or not WIDE_INTEGERS and past_32_bits(call):
        return Outcome("skip")
    if not tensors(call) and form != "out" and _named(call, "spyre") == call:
        # Nothing says that it is for the card.
        return Outcome("skip")
    if form == "out" and any(k in call[2] for k in ("device", "layout", "pin_memory")):
        return Outcome("skip")
    call = settled(call)
    if name in HOST_INDICES and tensors(call[1]):
        # As on every device: the numbers are read while the call is made.
        return Outcome("skip")
    on = _strided if form == "strided" else placed
    try:
        plain = None
        if form == "out":
            seeded(7)
            plain = op(*(lambda c: (c[0], *c[1]))(placed(call, "cpu")), **placed(call, "cpu")[2])
            if not all(isinstance(t, torch.Tensor) for t in tree_leaves(plain)):
                return Outcome("skip")
        run = _runner(name, form, sample, index, plain)
        seeded(7)
        want = run(on(call, "cpu"), "cpu")
    except Exception:
        return Outcome("skip")
    if unstored(want) or not WIDE_INTEGERS and past_32_bits(want):
        return Outcome("skip")
    if any(t.layout is not torch.strided for t in tensors((call, want))):
        return Outcome("skip")
    torch.spyre.reset_fallbacks()
    try:
        seeded(7)
        got = run(on(call, "spyre"), "spyre")
        ran = "cpu" if torch.spyre.fallbacks() else "native"
    except Exception as error:
        if form == "compiled" and not _compiles(op, call):
            return Outcome("skip")
        return Outcome("refused", message(error), sample=index)
    try:
        found = difference(want, got, wide=lambda: run(widened(call), "cpu"), values=name not in UNDEFINED, scale=largest(call))
    except Exception as error:
        return Outcome("wrong", "the result cannot be read: " + message(error), sample=index)
    if found and name in TIED:
        found = _untied(name, want, got)
    if found and _random(run, on(call, "cpu")):
        found = difference(want, got, values=False)
    strides = strides_differ(want, got)
    if not found and strides and STRIDES_CHECKED:
        found = "strides"
    return Outcome("wrong" if found else ran, found or "", strides, index)


def _compiles(op, call) -> bool:
    """Whether PyTorch itself compiles it, for the CPU."""
    torch._dynamo.reset()
    x, args, kwargs = placed(call, "cpu")
    try:
        torch.compile(lambda x, args, kwargs: op(x, *args, **kwargs), backend="aot_eager")(x, args, kwargs)
    except Exception:
        return False
    return True


def _untied(name, want, got):
    """The first difference, without positions of elements that are equal to others. Gradients go where
    the positions say, and are compared by their sum."""
    want, got = tensors(want), tensors(got)
    floats = [i for i, w in enumerate(want) if w.dtype != torch.int64]
    if not floats:
        return difference(want, got, values=False)
    total = [[t if i == 0 else t.float().sum() for i, t in enumerate(side) if i in floats] for side in (want, got)]
    return difference(*total) or difference(want, got, values=False)


class _Draws(TorchDispatchMode):
    """Notes whether an operator draws random numbers; PyTorch marks those that do."""

    def __init__(self):
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        self.found = self.found or torch.Tag.nondeterministic_seeded in function.tags
        return function(*args, **(kwargs or {}))


def _random(run, call) -> bool:
    with _Draws() as draws:
        run(call, "cpu")
    return draws.found


def worst(outcomes) -> Outcome:
    """The outcome of an entry."""
    return max(outcomes, key=lambda o: OUTCOMES.index(o.kind), default=Outcome("skip"))


def entry(name, dtype, form) -> dict:
    """All chosen samples of one entry: how many of each outcome, and the worst one."""
    outcomes = [check(name, dtype, form, i) for i in chosen(name, dtype, form)]
    # Equal kinds: the first sample, for a short way to reproduce it.
    bad = worst(outcomes)
    counts = {kind: sum(o.kind == kind for o in outcomes) for kind in OUTCOMES}
    return dict(entry=[name, short(dtype), form], kind=bad.kind, reason=bad.reason, sample=bad.sample, counts=counts, strides=sum(o.strides for o in outcomes))
