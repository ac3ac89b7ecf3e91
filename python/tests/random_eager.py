"""Random eager programs beside the CPU: indexing, operands without dimensions, views.

Each function draws one program from a ``random.Random`` and returns what differs, or None. Run as a script with a first seed
and a number of seeds it prints every difference: ``python random_eager.py 0 20``.
"""

from __future__ import annotations

import random
import sys

import torch

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
DTYPES = (*INTEGERS, torch.bool, torch.float32)
# Integers at the edges of every dtype, in which those beyond are left out.
VALUES = (0, 1, 2, 3, 7, -1, -7, -38, 38, 100, 127, -128, 128, 200, 255, 256, 300, -300, 32767, -32768, 40000, 2**31 - 1, -(2**31), 2**33)
FLOATS = (0.0, -0.0, 1.0, -1.5, 2.25, -38.0, 300.0, 7.0, 0.5)
BINARY = """minimum maximum fmin fmax floor_divide remainder fmod lt le gt ge eq ne pow add sub mul div copysign bitwise_and
bitwise_or bitwise_xor logical_and logical_or logical_xor atan2 hypot bitwise_left_shift bitwise_right_shift ldexp xlogy
heaviside clamp_min clamp_max clamp where""".split()


def on_card(tensor):
    """The tensor on the card with the same strides and the same offset in its storage."""
    line = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).to("spyre")
    return line.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def steps(tensor, exact):
    """The strides; those of dimensions with one element, which no element depends on, only where they are to be ``exact``."""
    return [s for n, s in zip(tensor.shape, tensor.stride()) if exact or n != 1]


def difference(want, got, exact=True):
    """What tells a result of the card from the CPU's, or None."""
    if (want.dtype, want.shape, steps(want, exact)) != (got.dtype, got.shape, steps(got, exact)):
        return f"{got.dtype} {list(got.shape)} {got.stride()}, and on the CPU {want.dtype} {list(want.shape)} {want.stride()}"
    got = got.cpu()
    same = torch.allclose(want, got, rtol=1e-5, atol=1e-6, equal_nan=True) if want.is_floating_point() else torch.equal(want, got)
    return None if same else f"{got.tolist()}, and on the CPU {want.tolist()}"


def compare(what, on_host, on_device, exact=True):
    """Runs a program on both; one that the CPU refuses is no program."""
    try:
        want = on_host()
    except Exception:
        return None
    try:
        found = difference(want, on_device(), exact)
    except Exception as error:
        found = f"{type(error).__name__}: {str(error)[:200]}"
    return found and f"{what}: {found}"


def strided(rng):
    """A tensor with strides of some kind."""
    rank = rng.randint(1, 4)
    x = torch.randn([rng.randint(1, 4) for _ in range(rank)])
    if rng.random() < 0.6:
        x = x.permute(rng.sample(range(rank), rank))
    if rng.random() < 0.3:
        d = rng.randrange(rank)
        x = x.narrow(d, x.shape[d] // 2, x.shape[d] - x.shape[d] // 2)
    if rng.random() < 0.2:
        x = x[..., ::2]
    return x.unsqueeze(0).expand(2, *x.shape) if rng.random() < 0.15 else x


def places(rng, size, shape):
    index = torch.randint(-size, size, shape)
    return index.transpose(0, -1).contiguous().transpose(0, -1) if len(shape) > 1 and rng.random() < 0.5 else index


def subscripts(rng, x):
    """Slices, numbers, masks, None and index tensors that broadcast."""
    together = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    found, d = [], 0
    while d < x.dim():
        kind = rng.choices(["slice", "index", "none", "number", "mask"], [8, 8, 2, 1, 1])[0]
        if kind == "none":
            found.append(None)
            continue
        size = x.shape[d]
        if kind == "slice":
            found.append(slice(None) if rng.random() < 0.8 else slice(0, None, 2))
        elif kind == "index":
            shape = [n if rng.random() < 0.7 else 1 for n in together]
            found.append(places(rng, size, shape[rng.randint(0, len(shape)) if rng.random() < 0.3 else 0 :]))
        else:
            found.append(rng.randrange(size) if kind == "number" else torch.rand(size) < 0.6)
        d += 1
        if rng.random() < 0.15:
            break
    return found


def index_program(rng):
    """A tensor by index, in one of PyTorch's ways."""
    x = strided(rng)
    card = on_card(x)
    way = rng.choice(["[]"] * 6 + ["index_select", "gather", "take", "take_along_dim", "masked_select"])
    d = rng.randrange(x.dim())
    if way == "[]":
        at = subscripts(rng, x)
        up = tuple(on_card(i) if isinstance(i, torch.Tensor) else i for i in at)
        shapes = [tuple(i.shape) if isinstance(i, torch.Tensor) else i for i in at]
        return compare(f"{list(x.shape)} {x.stride()} {shapes}", lambda: x[tuple(at)], lambda: card[up])
    shape = list(x.shape)
    shape[d] = rng.randint(1, 4)
    index = torch.randint(0, x.shape[d], (3,) if way == "index_select" else shape)
    if way == "take":
        index = places(rng, x.numel(), [2, 3])
    if way == "masked_select":
        index = torch.rand(x.shape) < 0.5
    function = getattr(torch, way)
    run = {
        "take": lambda a, i: function(a, i),
        "masked_select": lambda a, i: function(a, i),
        "take_along_dim": lambda a, i: function(a, i, d),
    }.get(way, lambda a, i: function(a, d, i))
    return compare(f"{way} of {list(x.shape)} {x.stride()}", lambda: run(x, index), lambda: run(card, on_card(index)))


def values(rng, dtype, shape):
    if dtype is torch.bool:
        return torch.randint(0, 2, shape).bool()
    if dtype.is_floating_point:
        return torch.empty(shape).apply_(lambda _: rng.choice(FLOATS))
    limits = torch.iinfo(dtype)
    fits = [v for v in VALUES if limits.min <= v <= limits.max]
    return torch.empty(shape, dtype=torch.int64).apply_(lambda _: rng.choice(fits)).to(dtype)


def number_program(rng):
    """Two operands, of which one mostly has no dimensions: on the card, on the host, or a number."""
    name, in_place = rng.choice(BINARY), rng.random() < 0.25
    first, second = rng.choice(DTYPES), rng.choice(DTYPES)
    shape = rng.choice([(4,), (2, 3), ()])
    other = rng.choice([(), (), shape])
    if rng.random() < 0.3:
        shape, other = other, shape
    a, b = values(rng, first, shape), values(rng, second, other)
    place = rng.choice(["card", "card", "host", "number"]) if b.dim() == 0 else "card"
    host = b.item() if place == "number" else b
    card = b.to("spyre") if place == "card" else host

    def run(x, y):
        if name == "where":
            return torch.where(x != 0, x, y)
        if in_place and hasattr(x, name + "_"):
            return getattr(x.clone(), name + "_")(y)
        return getattr(torch, name)(x, y)

    what = f"{name}{'_' * in_place} of {first} {a.tolist()} and {second} {b.tolist()} ({place})"
    moved = a.to("spyre")
    return compare(what, lambda: run(a, host), lambda: run(moved, card))


def view_program(rng):
    """Several steps over one tensor: views, writes into them, and arithmetic."""
    # Sums of small integers do not depend on their order.
    x = (strided(rng) * 4).round().contiguous()
    card = x.to("spyre")
    steps = []
    for _ in range(rng.randint(2, 6)):
        kind, d, e = rng.choice(["t", "flip", "slice", "write", "add", "view", "sum", "index"]), rng.random(), rng.random()
        at = rng.randrange(3)

        def step(v, kind=kind, d=d, e=e, at=at):
            p, q = int(d * v.dim()), int(e * v.dim())
            if v.dim() == 0:
                return v * 2
            if kind == "t":
                return v.transpose(p, q)
            if kind == "flip":
                return v.flip(p)
            if kind == "slice":
                return v.narrow(p, v.shape[p] // 2, v.shape[p] - v.shape[p] // 2) if v.shape[p] > 1 else v
            if kind == "write":
                v.select(p, at % v.shape[p]).mul_(2)
                return v
            if kind == "add":
                return v + v.select(p, 0).unsqueeze(p)
            if kind == "view":
                return v.reshape(-1, v.shape[-1]).view(-1) if v.is_contiguous() else v.contiguous()
            if kind == "sum":
                return v.sum(p)
            return v[(slice(None),) * p + (torch.tensor([0, -1], device=v.device),)]

        steps.append((kind, step))

    def run(v):
        base = v
        for _, step in steps:
            v = step(v)
        return v + base.sum()

    return compare(f"{[kind for kind, _ in steps]} of {list(x.shape)}", lambda: run(x), lambda: run(card), exact=False)


PROGRAMS = {"index": index_program, "number": number_program, "view": view_program}


def differences(kind: str, seed: int, count: int) -> list[str]:
    """What differs in that many programs of a kind."""
    rng = random.Random(f"{kind} {seed}")
    torch.manual_seed(seed)
    return [found for found in (PROGRAMS[kind](rng) for _ in range(count)) if found]


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    start, count = int(sys.argv[1]), int(sys.argv[2])
    for kind in PROGRAMS:
        found = [d for seed in range(start, start + count) for d in differences(kind, seed, 500)]
        print(kind, count * 500, "programs,", len(found), "differ")
        print(*found[:12], sep="\n")
