"""Random moves on a GPU, bit for bit beside the engine for the CPU: what `gpu.py --check` runs in several processes.

    python bench/gpu_pairs.py --first 0 --step 1 --cases 200 --seed 1

Each case is made from its seed and number alone. Both engines write into the middle of a larger buffer of one
pattern, and the whole buffers are compared, so that a byte in front of or behind the destination counts as well. A
case that fails is printed and counted, and the next one runs; after an error that ends the CUDA context the process
says so and leaves, and `gpu.py` starts another behind that case.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time

import torch
import zellige

CANARY = 0xA5
MARGIN = 256  # bytes in front of and behind a destination
WIDTHS = {
    1: ["uint8", "int8", "bool", "float8_e4m3fn", "float8_e5m2"],
    2: ["int16", "float16", "bfloat16"],
    4: ["int32", "float32"],
    8: ["int64", "float64", "complex64"],
    16: ["complex128"],
}
NUMBERS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16", "int32", "int64", "bool"]
STICKS = ["float16", "bfloat16", "float32", "int8", "uint8"]


class Case:
    """One move: the source, what `relayout` is called with, and the shape, strides and dtype of its `out`."""

    def __init__(self, kind, dtype, source, src, dst, out, out_dtype, fill, offset):
        self.kind, self.dtype, self.source, self.src, self.dst = kind, dtype, source, src, dst
        self.out, self.out_dtype, self.fill, self.offset = out, out_dtype, fill, offset

    def __str__(self):
        return (
            f"{self.kind}: {self.dtype} {self.source} src={self.src} dst={self.dst} out={self.out} "
            f"{self.out_dtype} fill={self.fill} offset={self.offset}"
        )


def strides(shape):
    """Row-major ones."""
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return found[::-1]


def extents(rng, rank, most):
    """Sizes whose product stays below `most`: small ones, powers of two, and what lies beside them."""
    room, shape = most, []
    for left in range(rank, 0, -1):
        limit = max(1, int(room ** (1 / left) * rng.choice([0.5, 1, 1, 2, 4])))
        limit = min(limit, room)
        n = rng.choice([rng.randint(1, limit), 1 << rng.randint(0, max(0, limit.bit_length() - 1)), (1 << rng.randint(0, max(0, limit.bit_length() - 1))) + rng.choice([-1, 1])])
        n = max(1, min(n, limit))
        shape.append(n)
        room = max(1, room // n)
    rng.shuffle(shape)
    return shape


def spread(rng, shape, gaps):
    """Strides in a random order of dimensions, with gaps where asked for: no two elements share a place."""
    order = list(range(len(shape)))
    rng.shuffle(order)
    found, step = [0] * len(shape), 1
    for d in order:
        if gaps and rng.random() < 0.3:
            step += rng.randint(0, 5)
        found[d] = step
        step *= shape[d]
    return found


def span(shape, stride, offset=0):
    return offset + sum((n - 1) * s for n, s in zip(shape, stride)) + 1


def tirx(shape, stride, more=""):
    return f"S[({','.join(map(str, shape))}):({','.join(map(str, stride))})]{more}"


def case(seed, number, most=1 << 17):
    """The case of a number."""
    rng = random.Random(f"{seed}:{number}")
    kind = rng.choice(["strides", "strides", "texts", "texts", "sticks", "restickify", "swizzle", "padding", "replicas", "convert", "convert sticks", "rows", "squares"])
    dtype = rng.choice(WIDTHS[rng.choice(list(WIDTHS))])
    fill = rng.choice([None, None, "zero", 1, "max", "leave"])
    if dtype in ("complex64", "complex128") and fill not in (None, "leave"):
        fill = "zero"
    offset = rng.choice([0, 0, 1, 2, 3, 5, 8, rng.randint(0, 40)])
    most = most if rng.random() < 0.8 else most * 16
    rank = rng.choice([1, 2, 2, 3, 3, 4, 5, 6])
    shape = extents(rng, rank, most)
    src = dst = out_dtype = None
    # A view of an array: steps, offsets, repeated rows, dimensions in another order.
    source = (shape, spread(rng, shape, rng.random() < 0.4), rng.choice([0, 0, 1, 3, rng.randint(0, 64)]))
    out = (shape, spread(rng, shape, rng.random() < 0.4), rng.choice([0, 0, 1, rng.randint(0, 64)]))
    if kind == "strides":
        if rng.random() < 0.2:
            d = rng.randrange(rank)
            source = (shape, [0 if i == d else s for i, s in enumerate(source[1])], source[2])
    elif kind in ("texts", "padding", "replicas", "swizzle"):
        if kind == "swizzle":
            rows, columns = 1 << rng.randint(0, 6), 1 << rng.randint(3, 8)
            shape = [rows, columns]
            bits, base = rng.randint(1, 3), rng.randint(0, 4)
            shift = rng.randint(bits, 4)
            dst = f"Swizzle({base},{bits},{shift}) o {tirx(shape, [columns, 1] if rng.random() < 0.7 else [1, rows])}"
        elif kind == "padding":
            widths = [n if rng.random() < 0.5 else n + rng.randint(1, 9) for n in shape]
            valid = [f"{n}/{p}" if n < p else str(n) for n, p in zip(shape, widths)]
            dst = tirx(widths, spread(rng, widths, rng.random() < 0.3), f" valid[{','.join(valid)}]")
        else:
            stride = spread(rng, shape, rng.random() < 0.5)
            more = ""
            if kind == "replicas":
                more = f" + R[{rng.randint(2, 3)}:{span(shape, stride) + rng.randint(0, 3)}]"
            if rng.random() < 0.4:
                more += f" + {rng.randint(1, 20)}"
            dst = tirx(shape, stride, more)
        source = (shape, strides(shape), 0) if rng.random() < 0.5 else (shape, spread(rng, shape, False), 0)
        if rng.random() < 0.3:
            # The same text as a source: the way back.
            src, dst = dst, tirx(shape, spread(rng, shape, rng.random() < 0.3))
        out = None
    elif kind in ("sticks", "restickify", "convert sticks"):
        dtype = rng.choice(STICKS if kind != "convert sticks" else ["float32", "float16", "bfloat16"])
        shape = extents(rng, rng.randint(1, 4), most)
        order = list(range(len(shape)))
        rng.shuffle(order)
        to = dtype if kind == "sticks" or kind == "restickify" else rng.choice(["float16", "bfloat16", "float32"])
        dst = zellige.SpyreTensorLayout(shape, to, order) if rng.random() < 0.5 else zellige.SpyreTensorLayout(shape, to)
        out_dtype = to
        source = (shape, strides(shape), 0) if rng.random() < 0.6 else (shape, spread(rng, shape, False), 0)
        if kind == "restickify":
            rng.shuffle(order)
            src = zellige.SpyreTensorLayout(shape, dtype, order)
        elif kind == "sticks" and rng.random() < 0.3:
            src, dst = dst, tirx(shape, spread(rng, shape, False))
        out = None
    elif kind == "convert":
        dtype, out_dtype = rng.choice(NUMBERS), rng.choice(NUMBERS)
    elif kind == "rows":
        # Long rows that stay rows: whole vectors and their ends.
        shape = [rng.randint(1, 9), rng.randint(1, 9), rng.choice([rng.randint(64, 700), 256, 512, 1024])]
        source, out = (shape, strides(shape), source[2]), (shape, spread(rng, shape[:2] + [1], False), out[2])
        inner = shape[2] + rng.choice([0, 0, 1, 8])
        out = (shape, [s * inner for s in out[1][:2]] + [1], out[2])
    else:
        # Rows that turn into columns, larger than a tile, with sizes beside whole tiles.
        a, b = (rng.choice([64, 128, 192, 256]) + rng.choice([0, 0, -1, 1, 7]) for _ in range(2))
        shape = [rng.randint(1, 3), a, b]
        source, out = (shape, strides(shape), source[2]), (shape, [a * b, 1, a], out[2])
    if src is not None or dst is not None:
        if src is not None:
            length = zellige.Layout(src, shape).span("m") if isinstance(src, str) else math.prod(src.device_size)
            if isinstance(src, str) and "valid" in src:
                length = max(length, span(*_padded(src)))
            source = ([length], [1], 0)
        if isinstance(dst, str):
            length = zellige.Layout(dst, shape).span("m")
            if "valid" in dst:
                length = max(length, span(*_padded(dst)))
        elif dst is not None:
            length = math.prod(dst.device_size)
        out = ([length], [1], 0)
    if fill == "max" and (out_dtype or dtype) in ("complex64", "complex128"):
        fill = None
    return Case(kind, dtype, source, src, dst, out, out_dtype or dtype, fill, offset)


def _padded(text):
    """The shape and strides of the padded domain of a text that this file wrote."""
    inner = text[text.index("S[(") + 3 : text.index("]")]
    shape, stride = (list(map(int, part.strip("()").split(","))) for part in inner.split("):("))
    return shape, stride


def buffers(case, device, generator):
    """The source, and the buffer with the destination in its middle."""
    dtype, out_dtype = getattr(torch, case.dtype), getattr(torch, case.out_dtype)
    shape, stride, offset = case.source
    length = span(shape, stride, offset)
    raw = torch.randint(0, 256, (length * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    if case.dtype == "bool":
        raw &= 1
    x = raw.to(device).view(dtype).as_strided(shape, stride, offset)
    shape, stride, offset = case.out
    # Torch views memory at whole elements only.
    front = MARGIN + case.offset * out_dtype.itemsize
    whole = torch.full((front + span(shape, stride, offset) * out_dtype.itemsize + MARGIN,), CANARY, dtype=torch.uint8, device=device)
    end = front + span(shape, stride, offset) * out_dtype.itemsize
    out = whole[front:end].view(out_dtype).as_strided(shape, stride, offset)
    return x, whole, out


def difference(case, seed, number):
    """None, or how the two engines differ."""
    told = []
    results = []
    for device in ("cpu", "cuda"):
        generator = torch.Generator().manual_seed(hash((seed, number)) & 0xFFFFFFFF)
        x, whole, out = buffers(case, device, generator)
        try:
            zellige.relayout(x, case.src, case.dst, out, fill=case.fill)
            told.append(None)
        except (ValueError, TypeError) as error:
            told.append(f"{type(error).__name__}: {error}")
        results.append(whole)
    torch.cuda.synchronize()
    if told[0] != told[1]:
        return f"the CPU says {told[0]}, the GPU {told[1]}"
    if told[0] is not None:
        return "refused" if (results[1].cpu() == CANARY).all() else "refused, and yet written"
    got = results[1].cpu()
    wrong = (got != results[0]).nonzero().flatten()
    if len(wrong) == 0:
        return None
    at = int(wrong[0])
    return f"{len(wrong)} of {len(got)} bytes differ, the first at {at}: {int(got[at])} and not {int(results[0][at])}"


# Errors after which no call of the process succeeds.
FATAL = ("illegal", "misaligned", "launch failure", "unspecified", "an illegal", "device-side assert", "hardware stack")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--cases", type=int, default=200, help="cases of this process")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one case alone, with its description")
    options = parser.parse_args()
    numbers = [options.only] if options.only is not None else range(options.first, options.first + options.cases * options.step, options.step)
    end = time.monotonic() + options.seconds
    for number in numbers:
        if time.monotonic() > end:
            break
        made, said, fatal = None, None, False
        try:
            made = case(options.seed, number)
            said = difference(made, options.seed, number)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next case runs
            said = f"{type(error).__name__}: {str(error)[:500]}"
            fatal = any(word in said.lower() for word in FATAL)
        row = {"number": number, "kind": made.kind if made else "?", "said": said}
        if said not in (None, "refused") or options.only is not None:
            row["case"] = str(made)
        print(json.dumps(row), flush=True)
        if fatal:
            # Nothing of this process works any more.
            sys.exit(3)


if __name__ == "__main__":
    main()
