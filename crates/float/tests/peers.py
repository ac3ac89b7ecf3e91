#!/usr/bin/env python3
"""Compares the conversions with numpy and ml_dtypes, and DL16 with a definition in numpy.

    peers.py PIPE        PIPE is the built example `pipe`

NaNs must meet NaNs, but their bits are each library's own choice; everything else must agree in
every bit. Where a library rounds twice (float64 or a wide integer by way of float32) the test shows
that it does, and that rounding twice explains the difference.
"""

import subprocess
import sys

import ml_dtypes
import numpy as np

FLOATS = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
INTEGERS = {name: np.dtype(name) for name in ("int64", "int32", "int16", "int8", "uint8", "uint32")}
OTHERS = {"bool": np.dtype(bool)}
DTYPES = FLOATS | INTEGERS | OTHERS
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits(array):
    return array.view(UNSIGNED[array.dtype.itemsize])


def inputs(name, rng):
    """All codes of a small format; of a wide one edges, ties of every narrower one, random bits."""
    dtype = DTYPES[name]
    if name == "bool":
        return np.array([False, True] * 50)
    if dtype.itemsize <= 2:
        return np.arange(1 << 8 * dtype.itemsize, dtype=UNSIGNED[dtype.itemsize]).view(dtype)
    if name == "float32":
        high = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
        low = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x2001, 0x3000, 0x7FFF, 0x8000,
                        0x8001, 0xFFFF], dtype=np.uint32)
        return (high | low).ravel().view(dtype)
    if name == "float64":
        near = inputs("float32", rng).astype(np.float64).view(np.uint64)
        wild = rng.integers(0, 1 << 64, 200_000, dtype=np.uint64)
        return np.concatenate([near, near - 1, near + 1, wild]).view(dtype)
    top = 8 * dtype.itemsize
    wild = rng.integers(0, 1 << 64, 400_000, dtype=np.uint64)
    wild >>= rng.integers(0, 64, wild.size, dtype=np.uint64)
    powers = np.array([(1 << a) + (1 << b) + c for a in range(top) for b in range(a) for c in (-1, 0, 1)],
                      dtype=object) % (1 << top)
    both = np.concatenate([wild, powers.astype(np.uint64)])
    return np.concatenate([both, 0 - both]).astype(UNSIGNED[dtype.itemsize]).view(dtype)


def ours(pipe, src, dst, array, out):
    done = subprocess.run([pipe, src, dst], input=array.tobytes(), stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, dtype=out)


def is_nan(array):
    return np.isnan(array.astype(np.float64))


def comparable(src, dst, array):
    """The values whose conversion is defined by both sides: into integers, those in range."""
    if src not in FLOATS or dst not in INTEGERS:
        return array
    value = array.astype(np.float64)
    info = np.iinfo(DTYPES[dst])
    keep = np.isfinite(value)
    keep &= (np.trunc(value) >= float(info.min)) & (np.trunc(value) < float(info.max) + 1)
    # float64 has no 2^63 - 1; above, the comparison with 2^63 is exact.
    if info.max < 2**53:
        keep &= np.trunc(value) <= float(info.max)
    return array[keep]


def compare(pipe, src, dst, array):
    array = comparable(src, dst, array)
    theirs = array.astype(DTYPES[dst])
    if dst == "float8_e4m3fn" and src in FLOATS | INTEGERS:
        # Past the largest number ml_dtypes gives a NaN; we saturate, as PyTorch does.
        value = array.astype(np.float64)
        largest = np.copysign(448.0, value).astype(DTYPES[dst])
        theirs = np.where(is_nan(theirs) & ~np.isnan(value), largest, theirs)
    mine = ours(pipe, src, dst, array, DTYPES[dst])
    different = bits(mine) != bits(theirs)
    nan_bits = 0
    if dst in FLOATS:
        both = is_nan(mine) & is_nan(theirs)
        nan_bits = int((different & both).sum())
        different &= ~both
    twice = 0
    if different.any() and src in ("float64", "int64", "int32", "uint32"):
        by_way = array.astype(np.float32).astype(DTYPES[dst])
        explained = different & (bits(by_way) == bits(theirs))
        twice = int(explained.sum())
        different &= ~explained
    wrong = int(different.sum())
    note = f", NaN bits differ in {nan_bits}" if nan_bits else ""
    note += f", the library rounds twice in {twice}" if twice else ""
    if wrong:
        at = int(np.flatnonzero(different)[0])
        note += f"; first {bits(array)[at]:#x}: ours {bits(mine)[at]:#x}, theirs {bits(theirs)[at]:#x}"
    if wrong or note:
        print(f"  {src} -> {dst}: {array.size} values, {wrong} differ{note}")
    return array.size, wrong


def dl16_values():
    """The value of every DL16 code, from its definition."""
    code = np.arange(1 << 16)
    exponent, fraction = (code >> 9) & 63, code & 511
    value = np.ldexp(1.0 + fraction / 512.0, exponent - 31)
    value[(code & 0x7FFF) == 0] = 0.0
    value[(code & 0x7FFF) == 0x7FFF] = np.nan
    return np.where(code >> 15 == 1, -value, value)


def compare_dl16(pipe, rng):
    values = dl16_values()
    codes = np.arange(1 << 16, dtype=np.uint16)
    wrong = 0
    for dst in ("float32", "float64"):
        mine = ours(pipe, "dl16", dst, codes, DTYPES[dst])
        want = values.astype(DTYPES[dst])
        wrong += int((~((bits(mine) == bits(want)) | (is_nan(mine) & is_nan(want)))).sum())
    # Every code in order of magnitude; the number nearest above or at a tie.
    finite = values[1:0x7FFF]
    tops = np.append((finite[:-1] + finite[1:]) / 2, np.ldexp(2 - 1.5 / 512, 32))
    first = np.ldexp(1 + 0.5 / 512, -31)
    for src in ("float64", "float32", "float16", "bfloat16", "int32", "int64", "int16", "bool"):
        array = inputs(src, rng)
        exact = array.astype(np.float64)
        if src == "int64":
            keep = np.abs(array) < 2**53
            array, exact = array[keep], exact[keep]
        magnitude = np.abs(exact)
        want = 1 + np.searchsorted(tops, magnitude, side="right")
        want[magnitude < first] = 0
        want[np.isnan(exact)] = 0x7FFF
        want = (want | np.where(np.signbit(exact), 0x8000, 0)).astype(np.uint16)
        mine = ours(pipe, src, "dl16", array, np.uint16)
        bad = mine != want
        # numpy may drop the sign of a NaN on its way to float64; the merged code is what counts.
        bad &= ~np.isnan(exact) | (mine & 0x7FFF != 0x7FFF)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            print(f"  {src} -> dl16: {exact[at]!r}: ours {mine[at]:#x}, definition {want[at]:#x}")
        wrong += int(bad.sum())
    return wrong


def main():
    (pipe,) = sys.argv[1:]
    np.seterr(all="ignore")
    rng = np.random.default_rng(7)
    print(f"numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}")
    values = wrong = pairs = 0
    for src in DTYPES:
        array = inputs(src, rng)
        for dst in DTYPES:
            if src != dst:
                size, bad = compare(pipe, src, dst, array)
                pairs, values, wrong = pairs + 1, values + size, wrong + bad
    print(f"{pairs} pairs, {values} values, {wrong} differ")
    bad = compare_dl16(pipe, rng)
    print(f"dl16 against its definition: {bad} differ")
    sys.exit(1 if wrong or bad else 0)


if __name__ == "__main__":
    main()
