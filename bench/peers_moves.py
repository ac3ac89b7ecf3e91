"""The moves of `zellige bench moves --peers` in other people's libraries.

The program starts this script and writes one case a line; the answer is one line with the median
seconds of every peer, or why there are none. A result is compared bit for bit (by its checksum)
with the program's before it is timed. All peers and a plain copy take turns on as many threads as
the first argument says.

A case holds the loop nests of its plan, from which strided views are made (numpy, torch), and for
moves that are one pad, reshape and transpose the loops of that (torch.compile, JAX, oneDNN).
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import shutil
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

# So many threads, whatever a library thinks of its own.
THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-THREADS:])
os.environ.update(
    OMP_NUM_THREADS=str(THREADS), MKL_NUM_THREADS=str(THREADS), JAX_PLATFORMS="cpu"
)
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

ROUND = 4e-3
# Seconds after which a peer that takes very long is not asked again.
PATIENCE = 0.5
HUGE = 2 << 20
# Past so many views, a library is given a table of indices.
MOST_VIEWS = 1024
# The elements of each width; floats, as compilers for arrays vectorise those. Formats have their own
# names.
NAMES = {"1": "uint8", "2": "float16", "4": "float32", "8": "float64", "16": "complex128"}
MISSING = "not installed"


def load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 (a broken install is none)
        return None


np, torch, jax = load("numpy"), load("torch"), load("jax")
if torch:
    torch.set_num_threads(THREADS)
if jax:
    jax.config.update("jax_enable_x64", True)

Call = Callable[[], Any]


class NoSuchMove(Exception):
    """The peer has no such move."""


def buffer(size: int) -> Any:
    """Bytes that begin on a huge page, as the program's own buffers do."""
    # Private: memory that processes may share is not given huge pages by most systems.
    private = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    flags = {"flags": private} if private else {}
    memory = mmap.mmap(-1, size + 2 * HUGE, **flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    flat = np.frombuffer(memory, np.uint8)
    shift = -flat.ctypes.data % HUGE
    return flat[shift : shift + size]


class Case:
    """A case with its buffers."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.nests = spec["plan"]["nests"]
        self.fills = spec["plan"]["fills"]
        self.from_name = NAMES.get(spec["from"], spec["from"])
        self.to_name = NAMES.get(spec["to"], spec["to"])
        self.converts = self.from_name != self.to_name
        # Some formats no library has.
        self.known = all(hasattr(np, name) for name in (self.from_name, self.to_name))
        self.dst_bytes = spec["dst_bytes"]
        self.src = buffer(max(spec["src_bytes"], spec["bytes"]))
        self.dst = buffer(max(self.dst_bytes, spec["bytes"]))
        # The program's own pattern, which repeats.
        if self.converts and self.from_name == "float16":
            codes = (0x3400 + np.arange(2048) * 31 % 2048).astype(np.uint16)
            halves = self.elements(self.src, "uint16")
            halves[:] = np.resize(codes, len(halves))
        elif self.converts and self.known:
            steps = (np.arange(2048) * 31 % 2048).astype(np.float32) / 1024 - 1
            floats = self.elements(self.src, "float32")
            floats[:] = np.resize(steps, len(floats))
        else:
            index = np.arange(4096)
            pattern = ((index * 31 + index // 64) & 0x3F).astype(np.uint8)
            self.src[:] = np.resize(pattern, len(self.src))
        self.crc = spec["crc"]

    @staticmethod
    def elements(flat: Any, name: str) -> Any:
        width = np.dtype(name).itemsize
        return flat[: len(flat) // width * width].view(name)

    def indices(self) -> tuple[Any, Any] | None:
        """Source and destination of every element, where views would be too many."""
        if sum(len(nest["starts"]) for nest in self.nests) <= MOST_VIEWS:
            return None
        sides: tuple[list[Any], list[Any]] = ([], [])
        for nest in self.nests:
            starts = np.array(nest["starts"], np.int64)
            for column, side in enumerate(("src", "dst")):
                index = starts[:, column]
                for loop in nest["loops"]:
                    index = index[..., None] + np.arange(loop["range"]) * loop[side]
                sides[column].append(index.reshape(-1))
        return np.concatenate(sides[0]), np.concatenate(sides[1])

    def check(self, call: Call) -> float:
        """The seconds of a call whose result is right. A peer that returns memory of its own is compared there,
        else in the destination. What a compiler takes for the first call does not count."""
        self.dst[:] = 1
        once, made = timed(call)
        if once >= PATIENCE:
            once, made = timed(call)
        flat = self.dst if made is None else np.ascontiguousarray(made).reshape(-1).view(np.uint8)
        if zlib.crc32(flat[: self.dst_bytes]) != self.crc:
            raise ValueError("wrong result")
        return once

    def dense(self) -> tuple[list[int] | None, list[int], list[int]]:
        """(padded shape, extents in the order of the source, transposition of those)."""
        padded = self.spec["padded"]
        nests = padded["nests"] if padded else self.nests
        if len(nests) != 1 or nests[0]["starts"] != [[0, 0]] or (self.fills and not padded):
            raise NoSuchMove
        loops = [loop for loop in nests[0]["loops"] if loop["range"] > 1]
        by_src = sorted(loops, key=lambda loop: -loop["src"])
        by_dst = sorted(loops, key=lambda loop: -loop["dst"])
        for side, order in (("src", by_src), ("dst", by_dst)):
            next_stride = 1
            for loop in reversed(order):
                if loop[side] != next_stride:
                    raise NoSuchMove
                next_stride *= loop["range"]
        shape = padded and padded["shape"]
        return shape, [loop["range"] for loop in by_src], [by_src.index(x) for x in by_dst]


def numpy_views(case: Case) -> Iterator[Call]:
    as_strided = np.lib.stride_tricks.as_strided
    src, dst = case.elements(case.src, case.from_name), case.elements(case.dst, case.to_name)

    def view(flat: Any, start: int, sizes: list[int], strides: list[int]) -> Any:
        return as_strided(flat[start:], sizes, [s * flat.itemsize for s in strides])

    pairs, holes, table = [], [], case.indices()
    for nest in [] if table else case.nests:
        sizes = [loop["range"] for loop in nest["loops"]]
        for a, b in nest["starts"]:
            from_view = view(src, a, sizes, [loop["src"] for loop in nest["loops"]])
            pairs.append((view(dst, b, sizes, [loop["dst"] for loop in nest["loops"]]), from_view))
    for fill in case.fills:
        sizes, strides = [r for r, _ in fill["loops"]], [s for _, s in fill["loops"]]
        holes += [view(dst, start, sizes, strides) for start in fill["starts"]]

    def views() -> None:
        for to, source in pairs:
            np.copyto(to, source, casting="unsafe")
        if table:
            dst[table[1]] = src[table[0]]
        for hole in holes:
            hole.fill(0)

    yield views
    if units := permuted_units(case, src, dst):
        source, order, to = units
        yield lambda: np.take(source, order, 1, to, "clip")  # "raise" would copy twice


def permuted_units(case: Case, src: Any, dst: Any) -> tuple[Any, Any, Any] | None:
    """A swizzle: blocks whose units of some bytes are permuted by one table."""
    if len(case.nests) != 1 or case.converts or case.fills or len(case.nests[0]["starts"]) < 2:
        return None
    loops, starts = case.nests[0]["loops"], case.nests[0]["starts"]
    if len(loops) != 2 or loops[1]["src"] != 1 or loops[1]["dst"] != 1:
        return None
    run, block = loops[1]["range"], loops[0]["src"]
    name = NAMES.get(str(run * src.itemsize))
    aligned = all(a % run == 0 and b % run == 0 for a, b in starts)
    if name is None or loops[0]["dst"] != block or not aligned or len(starts) * run != block:
        return None
    table = np.zeros(len(starts), np.int64)
    for a, b in starts:
        table[b // run] = a // run
    shape, count = (loops[0]["range"], len(starts)), loops[0]["range"] * block
    source, to = (flat[:count].view(name).reshape(shape) for flat in (src, dst))
    return source, table, to


def torch_views(case: Case) -> Iterator[Call]:
    src = torch.from_numpy(case.elements(case.src, case.from_name))
    dst = torch.from_numpy(case.elements(case.dst, case.to_name))
    for nest in case.nests:
        if any(loop["src"] < 0 or loop["dst"] < 0 for loop in nest["loops"]):
            raise NoSuchMove  # torch has no negative strides
    pairs, holes, table = [], [], case.indices()
    table = table and [torch.from_numpy(index) for index in table]
    for nest in [] if table else case.nests:
        sizes = [loop["range"] for loop in nest["loops"]]
        for a, b in nest["starts"]:
            from_view = src.as_strided(sizes, [loop["src"] for loop in nest["loops"]], a)
            to_view = dst.as_strided(sizes, [loop["dst"] for loop in nest["loops"]], b)
            pairs.append((to_view, from_view))
    for fill in case.fills:
        sizes, strides = [r for r, _ in fill["loops"]], [s for _, s in fill["loops"]]
        holes += [dst.as_strided(sizes, strides, start) for start in fill["starts"]]

    def views() -> None:
        for to, source in pairs:
            to.copy_(source)
        if table:
            dst[table[1]] = src[table[0]]
        for hole in holes:
            hole.zero_()

    yield views
    arrays = permuted_units(
        case, case.elements(case.src, case.from_name), case.elements(case.dst, case.to_name)
    )
    if arrays:
        source, order, to = (torch.from_numpy(a) for a in arrays)

        def select() -> None:
            torch.index_select(source, 1, order, out=to)

        yield select


def pads(shape: list[int], padded: list[int]) -> list[tuple[int, int]]:
    return [(0, whole - valid) for valid, whole in zip(shape, padded, strict=True)]


def torch_compiled(case: Case) -> Iterator[Call]:
    if not (shutil.which("g++") or shutil.which("clang++")):
        raise ValueError("no C++ compiler")
    padded, sizes, order = case.dense()
    to = getattr(torch, case.to_name)
    src = torch.from_numpy(case.elements(case.src, case.from_name))
    dst = torch.from_numpy(case.elements(case.dst, case.to_name))
    shape = case.spec["shape"] if padded else sizes
    count = 1
    for extent in shape:
        count *= extent
    src = src[:count].reshape(shape)
    # Not flat: the compiler tiles loops over dimensions, and not over a division of one index.
    dst = dst[: case.dst_bytes // dst.element_size()].view([sizes[d] for d in order])
    flat_pads = [n for pair in reversed(pads(shape, padded)) for n in pair] if padded else None

    def move(x: Any, out: Any) -> None:
        if flat_pads:
            x = torch.nn.functional.pad(x, flat_pads)
        out.copy_(x.reshape(sizes).permute(order).to(to))

    torch._dynamo.reset()
    compiled = torch.compile(move, dynamic=False, fullgraph=True)
    yield lambda: compiled(src, dst)


def jax_jitted(case: Case) -> Iterator[Call]:
    padded, sizes, order = case.dense()
    import jax.numpy as jnp

    shape = case.spec["shape"] if padded else sizes
    count = int(np.prod(shape, dtype=np.int64))
    src = jnp.asarray(case.elements(case.src, case.from_name)[:count].reshape(shape))

    def move(x: Any) -> Any:
        if padded:
            x = jnp.pad(x, pads(shape, padded))
        return x.reshape(sizes).transpose(order).astype(case.to_name)

    jitted = jax.jit(move)
    yield lambda: jitted(src).block_until_ready()


def onednn_reorder(case: Case) -> Iterator[Call]:
    """Through torch, whose transposes of oneDNN tensors are oneDNN's reorders."""
    if not torch.backends.mkldnn.is_available():
        raise ValueError(MISSING)
    padded, sizes, order = case.dense()
    moved = [i for i, d in enumerate(order) if i != d]
    name = {"1": "int8", "2": "float16", "4": "float32"}.get(case.spec["from"])
    if padded or case.converts or len(moved) != 2 or name is None:
        raise NoSuchMove  # those transposes swap two dimensions
    count = int(np.prod(sizes, dtype=np.int64))
    src = torch.from_numpy(case.elements(case.src, name)[:count].reshape(sizes)).to_mkldnn()

    class Made:
        """Made dense only when it is compared."""

        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __array__(self, *_: Any, **__: Any) -> Any:
            return self.tensor.to_dense().contiguous().numpy()

    yield lambda: Made(src.transpose(*moved))


PEERS: dict[str, tuple[Any, Callable[[Case], Iterator[Call]]]] = {
    "numpy": (np, numpy_views),
    "torch": (torch, torch_views),
    "torch.compile": (torch, torch_compiled),
    "jax": (jax, jax_jitted),
    "oneDNN": (torch, onednn_reorder),
}


def timed(call: Call) -> tuple[float, Any]:
    start = time.perf_counter()
    made = call()
    return time.perf_counter() - start, made


def seconds(call: Call, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


class Contest:
    """The peers that are right about a case, and the plain copies beside them."""

    def __init__(self, case: Case) -> None:
        self.rounds = case.spec["rounds"]
        self.why: dict[str, str] = {}
        # Peers whose only figure is that of one call.
        self.slow: dict[str, float] = {}
        self.calls: list[tuple[str, Call]] = []
        size = case.spec["bytes"]
        src, dst = case.src[:size], case.dst[:size]
        self.calls.append(("copy", lambda: np.copyto(dst, src)))
        if torch:
            to, source = torch.from_numpy(dst), torch.from_numpy(src)
            self.calls.append(("copy", lambda: to.copy_(source)))
        for name in case.spec["only"] or PEERS:
            library, build = PEERS[name]
            if library is None:
                self.why[name] = MISSING
                continue
            if not case.known:
                self.why[name] = "-"
                continue
            try:
                for call in build(case):
                    once = case.check(call)
                    if once < PATIENCE:
                        self.calls.append((name, call))
                    else:
                        self.slow[name] = min(self.slow.get(name, once), once)
            except NoSuchMove:
                self.why[name] = "-"
            except Exception as e:  # noqa: BLE001 (any failure of a peer is its answer)
                self.why[name] = (str(e).splitlines() or [type(e).__name__])[0][:60]

    def measure(self) -> dict[str, Any]:
        """The best median of every name, in turns."""
        once = [seconds(call, 1) for _, call in self.calls]  # which also warms up
        repeats = [max(1, min(20_000, round(ROUND / found))) for found in once]
        times: list[list[float]] = [[] for _ in self.calls]
        for _ in range(self.rounds):
            for (_, call), calls, found in zip(self.calls, repeats, times, strict=True):
                if sum(found) < PATIENCE:
                    found.append(seconds(call, calls))
        best = dict(self.slow)
        for (name, _), found in zip(self.calls, times, strict=True):
            best[name] = min(best.get(name, float("inf")), statistics.median(found))
        return {"copy": best.pop("copy"), "peers": {**self.why, **best}}


def main() -> None:
    # Libraries may print; the answers keep the real standard output to themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    libraries = {"numpy": np, "torch": torch, "jax": jax}
    versions = {name: getattr(x, "__version__", MISSING) for name, x in libraries.items()}
    print(json.dumps(versions), file=answers)
    contest = None
    for line in sys.stdin:
        spec = json.loads(line)
        if np is None:
            why = {name: MISSING if library is None else "needs numpy"
                   for name, (library, _) in PEERS.items()}
            print(json.dumps({"copy": None, "peers": why}), file=answers)
            continue
        if "again" not in spec:
            contest = None  # frees the memory of the case before
            contest = Contest(Case(spec))
        print(json.dumps(contest.measure()), file=answers)


main()
