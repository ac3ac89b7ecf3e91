"""The cases of zellige-bench on other people's libraries: one Markdown table.

    python -m venv .venv && .venv/bin/pip install numpy apache-tvm tensor-layouts
    .venv/bin/python bench/peers.py

TVM's layouts are C++ behind Python, tensor-layouts is pure Python: every number includes what a
Python caller pays. A peer that is missing, or that answers wrongly, is named in the table.
"""

from __future__ import annotations

import importlib.metadata
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROUNDS = 31
LONG_ROUNDS = 11
ROUND_NS = 2_000_000
SIZE = 1 << 24


class Case(NamedTuple):
    """A name, the call, and a check of what it answers."""

    name: str
    call: Callable[[], Any]
    check: Callable[[Any], bool]
    long: bool = False


def sample(call: Callable[[], Any], calls: int) -> float:
    """Nanoseconds of one call."""
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - start) / calls


def measure(case: Case) -> list[float]:
    if case.long:
        case.call()
        return [sample(case.call, 1) for _ in range(LONG_ROUNDS)]
    calls = 1
    while sample(case.call, calls) * calls < ROUND_NS:
        calls *= 2
    return [sample(case.call, calls) for _ in range(ROUNDS)]


def show(ns: float) -> str:
    if ns < 999.5:
        return f"{ns:.0f} ns"
    return f"{ns / 1e3:.2f} us" if ns < 999_500 else f"{ns / 1e6:.2f} ms"


def tvm_cases() -> Iterator[Case]:
    from tvm.tirx import layout as tirx
    from tvm.tirx.layout import ComposeLayout, S, TileLayout

    lane, warp = tirx.laneid, tirx.wid_in_wg
    fragment = TileLayout(S[(2, 8, 4, 2) : (2, 4 @ lane, 1 @ lane, 1)])
    wgmma = TileLayout(S[(4, 2, 8, 8, 4, 2) : (1 @ warp, 2, 4 @ lane, 4, 1 @ lane, 1)])
    seven = TileLayout(S[(18, 8, 2, 4, 2, 3, 6) : (4, 2, 1, 4, 24, 6, 1)])
    swizzled = ComposeLayout(3, 3, 3, TileLayout(S[(64, 4, 64) : (64, 4096, 1)]))
    outer = TileLayout(S[(4, 2) : (2 @ warp, 1 @ warp)])

    def at(**place: int) -> Callable[[Any], bool]:
        return lambda found: {str(k): int(v) for k, v in found.items()} == place

    yield Case(
        "apply, 4 iters on 2 axes (mma C/D)",
        lambda: fragment.apply(3, 5, shape=[16, 8]),
        at(laneid=14, m=1),
    )
    yield Case(
        "apply, 3 iters, swizzled", lambda: swizzled.apply(1, 9, shape=[64, 256]), at(m=64 + 1)
    )
    yield Case(
        "canonicalize, 7 iters", seven.canonicalize, lambda found: len(found.shard) == 5
    )
    yield Case(
        "group, 6 iters", lambda: wgmma.group([2, 32, 8, 8]), lambda found: len(found[1]) == 5
    )
    yield Case(
        "slice, 4 iters (mma C/D, one row)",
        lambda: fragment.slice([16, 8], [(3, 4), (0, 8)]),
        lambda found: found is not None,
    )
    yield Case(
        "slice, 6 iters (wgmma, a quarter)",
        lambda: wgmma.slice([64, 64], [(32, 64), (32, 64)]),
        lambda found: found is not None,
    )
    yield Case(
        "tile, 4 iters by 2",
        lambda: fragment.tile(outer, [4, 2], [16, 8]),
        lambda found: int(found.size()) == 1024,
    )


def cute_cases() -> Iterator[Case]:
    import tensor_layouts as tl

    # CuTe counts the first mode fastest: the iters are reversed. One axis, so no lanes.
    four = tl.Layout((32, 8, 4, 16), (1, 128, 32, 1024))
    seven = tl.Layout((6, 3, 2, 4, 2, 8, 18), (1, 6, 24, 4, 1, 2, 4))
    a = tl.Layout((4, 4, 8, 4, 8, 4), (2048, 4, 128, 16, 64, 1))
    b = tl.Layout((4, 4, 4, 8, 4, 8), (128, 4096, 8, 1, 32, 512))
    memory = tl.Layout((4, 4, 8, 4, 8, 4), (1024, 4096, 4, 32, 128, 1))
    swizzled = tl.compose(tl.Swizzle(3, 3, 3), tl.Layout((64, 4, 64), (1, 4096, 64)))
    yield Case("apply, 4 iters on m", lambda: four(5, 1, 2, 3), lambda found: found == 3269)
    yield Case("apply, 3 iters, swizzled", lambda: swizzled(9, 0, 1), lambda found: found == 65)
    yield Case(
        "canonicalize, 7 iters", lambda: tl.coalesce(seven), lambda found: tl.rank(found) == 5
    )
    yield Case(
        "compose, 6 iters after 6",
        lambda: tl.compose(a, b),
        lambda found: all(found(i) == a(b(i)) for i in range(0, 16384, 61)),
    )
    yield Case(
        "inverse, 6 iters on m",
        lambda: tl.right_inverse(memory),
        lambda found: all(memory(found(i)) == i for i in range(0, 16384, 61)),
    )


def numpy_cases() -> Iterator[Case]:
    import numpy as np

    def strided(extents: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        digits = (np.arange(e, dtype=np.int64) * s for e, s in zip(extents, strides, strict=True))
        return sum(np.ix_(*digits)).ravel()

    def swizzle(table: Any) -> Any:
        return table ^ ((table >> 3) & (7 << 3))

    near = ((256, 256, 256), (65792, 257, 1))
    permuted = ((16,) * 6, (1, 4096, 16, 1048576, 256, 65536))
    sticks = ((4096, 64, 64), (64, 262144, 1))
    padded = ((4096, 66, 64), (64, 262144, 1))
    kept = np.zeros(SIZE, np.int64)
    ones = np.ones(SIZE, np.int64)

    def full(found: Any) -> bool:
        return found.size == SIZE

    yield Case("table 16M, 3 iters, nearly row-major", lambda: strided(*near), full, True)
    yield Case("table 16M, permuted, 6 iters", lambda: strided(*permuted), full, True)
    yield Case(
        "table 16M, swizzled 4096x4096", lambda: swizzle(strided(*sticks)), full, True
    )
    yield Case(
        "table 16M, padded 4000x4195 of 4096x4224 in sticks",
        lambda: strided(*padded).reshape(4096, 4224)[:4000, :4195].ravel(),
        lambda found: found.size == 4000 * 4195,
        True,
    )
    yield Case("ceiling: 16M x 8 B written to fresh memory", lambda: np.arange(SIZE), full, True)
    yield Case(
        "ceiling: 16M x 8 B copied, both mapped",
        lambda: np.copyto(kept, ones),
        lambda _: True,
        True,
    )


PEERS = [
    ("apache-tvm", "C++ behind Python", tvm_cases),
    ("tensor-layouts", "pure Python", cute_cases),
    ("numpy", "C behind Python", numpy_cases),
]


def main() -> None:
    print(f"Python {sys.version.split()[0]}\n")
    print("| peer | case | median | min .. max |\n|---|---|---:|---:|")
    for package, kind, cases in PEERS:
        try:
            peer = f"{package} {importlib.metadata.version(package)} ({kind})"
            found = list(cases())
        except Exception as error:  # noqa: BLE001 - a peer may fail to load in any way
            print(f"| {package} | not measured: {type(error).__name__}: {error} | | |")
            continue
        for case in found:
            try:
                right = case.check(case.call())
            except Exception as error:  # noqa: BLE001 - what the peer raises is the result
                print(f"| {peer} | {case.name}: {type(error).__name__}: {error} | | |")
                continue
            if not right:
                print(f"| {peer} | {case.name}: a wrong answer | | |")
                continue
            times = sorted(measure(case))
            spread = f"{show(times[0])} .. {show(times[-1])}"
            print(f"| {peer} | {case.name} | {show(statistics.median(times))} | {spread} |")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
