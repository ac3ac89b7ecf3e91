"""Measures kernels on a GPU: candidates that `zellige-cuda` wrote, each in several variants of its text, as parts of the speed
of a device copy of the same run.

    ZELLIGE_CANDIDATES=target/candidates cargo test -p zellige-cuda --test golden every_candidate -- --ignored
    python bench/gpu_kernels.py --compile target/candidates out/kernels --nvrtc libnvrtc.so.13   # without a GPU
    python bench/gpu_kernels.py out/kernels --json kernels.json                                  # on the GPU

The first command writes a text for every kernel that could move each of some dozens of cases, with the time that the cost
model expects of it. The second compiles the best of each case by that model, in every variant. The third runs them: all
kernels of a case must leave the same bytes. It ends with a table of the variants, by which the policies of
loads and stores in `print.rs` and the constants of `Gpu::H200` are set.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import ctypes
import json
import re
import statistics
import sys
import time
from pathlib import Path

# Stores that leave the cache first.
STREAMED = [(r"__stwb\(", "__stcs(")]
# The rounds of a tile as loops: short machine code.
LOOPS = [(r"#pragma unroll\n(  for \(u32 u)", r"#pragma unroll 1\n\1")]
PAIRS = [(r"#pragma unroll\n(  for \(u32 u)", r"#pragma unroll 2\n\1")]
BRING = r"cp\.async\.cg\.shared\.global\.L2::128B \[%0\], \[%1\], 16;"
NO_PREFETCH = [(BRING, "cp.async.cg.shared.global [%0], [%1], 16;")]
LONG_PREFETCH = [(BRING, "cp.async.cg.shared.global.L2::256B [%0], [%1], 16;")]
READ_ONLY = [(r"__ldcs\(", "__ldg(")]
NOT_KEPT = [(
    r"uint4 q = __ldcs\(\(const uint4\*\)p\);",
    'uint4 q; asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w) : "l"(p));',
)]
# By name: the kernels that it is tried on, how many of a case, and the changes of the text.
VARIANTS = {
    "as printed": ("all", 14, []),
    "streamed stores": ("all", 3, STREAMED),
    "loops": ("tiles", 5, LOOPS),
    "loops by two": ("tiles", 2, PAIRS),
    "no prefetch": ("tiles", 3, NO_PREFETCH),
    "prefetch of 256 bytes": ("tiles", 2, LONG_PREFETCH),
    "read-only loads": ("others", 4, READ_ONLY),
    "loads not kept": ("others", 4, NOT_KEPT),
}


def described(path):
    """What the first lines of a text say."""
    text = path.read_text()
    read, src, written, dst = map(int, re.search(r"reads (\d+) bytes of (\d+), writes (\d+) of (\d+)", text).groups())
    estimate = re.search(r"estimate (\S+) (\w+)", text)
    title = [line[3:] for line in text.splitlines() if re.match(r"// (Tiles|Squares|Copies|Fills|Units|which|of which)", line)]
    return text, {
        "case": path.name.split(".")[0], "pick": path.name.split(".")[1], "bytes": read + written, "src": src, "dst": dst,
        "launches": [[name, int(grid), int(block), int(shared or 0)] for name, grid, block, shared in re.findall(r"// launch (\w+)<<<(\d+), (\d+)(?:, (\d+))?>>>", text)],
        "seconds": float(estimate[1]), "chosen": estimate[2] == "chosen", "title": " ".join(title),
        "tile": "barrier();" in text.split("struct Vec")[1].split("turned(const")[1],
    }


def machine_code(nvrtc, text):
    """The text compiled for sm_90."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None) != 0:
        sys.exit("NVRTC makes no program")
    options = [b"--gpu-architecture=sm_90", b"-std=c++17"]
    if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


def compile_all(options, texts, out):
    """Machine code of the best candidates in every variant, with an index."""
    nvrtc = ctypes.CDLL(options.nvrtc)
    cases = {}
    for path in sorted(texts.glob("*.cu")):
        text, about = described(path)
        if re.search(options.only, about["case"]):
            cases.setdefault(about["case"], []).append((text, about))
    jobs = []
    for found in cases.values():
        found.sort(key=lambda one: (not one[1]["chosen"], one[1]["seconds"]))
        for variant, (kind, most, changes) in VARIANTS.items():
            fitting = [one for one in found if kind == "all" or (kind == "tiles") == one[1]["tile"]]
            # Far from the best, the model is right enough.
            fitting = [one for one in fitting if one[1]["seconds"] < 1.5 * found[0][1]["seconds"]]
            plain = [one for one in fitting[most:] if "begin at multiples" not in one[1]["title"]]
            for text, about in fitting[:most] + plain[: most // 3]:
                changed = text
                for pattern, to in changes:
                    changed = re.sub(pattern, to, changed)
                if changes and changed == text:
                    continue
                number = list(VARIANTS).index(variant)
                jobs.append((changed, {**about, "variant": variant, "file": f"{about['case']}.{about['pick']}.{number}.cubin"}))
    out.mkdir(parents=True, exist_ok=True)
    print(f"{len(jobs)} kernels of {len(cases)} cases", flush=True)

    def one(job):
        text, about = job
        (out / about["file"]).write_bytes(machine_code(nvrtc, text))
        return about

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        index = list(pool.map(one, jobs))
    (out / "index.json").write_text(json.dumps(index))


def measure(options):
    """Every kernel of the index, beside the copy."""
    import cupy as cp

    end = time.monotonic() + options.seconds
    index = []
    for folder in options.folders:
        for about in json.loads((folder / "index.json").read_text()):
            if re.search(options.only, about["case"]):
                index.append({**about, "file": str(folder / about["file"])})
    source = cp.arange((2 << 30) // 8 + 32, dtype=cp.uint64)
    source *= cp.uint64(0x9E3779B97F4A7C15)
    out, ballast = cp.empty_like(source), [cp.zeros(1 << 25, dtype=cp.uint64) for _ in range(2)]
    gib = (1 << 30) // 8

    def timed(function, rounds):
        """The median in seconds. A copy runs in front of every call, so that the host is ahead of the device."""
        times = []
        for k in range(rounds + 1):
            begin, done = cp.cuda.Event(), cp.cuda.Event()
            cp.copyto(ballast[0], ballast[1])
            begin.record()
            function()
            done.record()
            done.synchronize()
            times += [cp.cuda.get_elapsed_time(begin, done) / 1e3] if k else []
        return statistics.median(times)

    copy = lambda: cp.copyto(out[:gib], source[:gib])  # noqa: E731
    speed = 2 * (1 << 30) / timed(copy, 15)
    print(f"copy {speed / 1e9:.0f} GB/s", flush=True)
    cases = {}
    for about in index:
        cases.setdefault(about["case"], []).append(about)
    wrong = 0
    for case, kernels in cases.items():
        if time.monotonic() > end:
            print(f"no time was left for {case}")
            continue
        ceiling, first = 2 * (1 << 30) / timed(copy, 5), None
        for about in kernels:
            module = cp.RawModule(path=about["file"])
            functions = [(module.get_function(name), (grid,), (block,), shared) for name, grid, block, shared in about["launches"]]
            for function, *_, shared in functions:
                if shared:
                    function.max_dynamic_shared_size_bytes = shared

            def go(functions=functions):
                for function, grid, block, shared in functions:
                    function(grid, block, (source, out), shared_mem=shared)

            words = about["dst"] // 8 + 1
            out[:words].fill(7)
            go()
            if first is None:
                first = out[:words].copy()
            about["same"] = bool((out[:words] == first).all())
            wrong += not about["same"]
            about["part"] = round(about["bytes"] / timed(go, options.rounds) / ceiling, 4)
        del first
        print(case, flush=True)
        for about in sorted(kernels, key=lambda a: -a["part"])[: options.shown]:
            model = about["bytes"] / about["seconds"] / ceiling if about["seconds"] else 0
            marks = ("*" if about["chosen"] else " ") + ("" if about["same"] else " DIFFERS")
            print(f"  {marks} {about['part']:.3f} model {model:.3f} [{about['variant']}] {about['pick']} {about['title']}", flush=True)
        if options.json:
            options.json.write_text(json.dumps({"copy": speed, "kernels": index}))
    summary(cases)
    print(f"{wrong} kernels left other bytes than the first of their case")
    return wrong


def summary(cases):
    """Variants by their parts of the copy: of the kernel that is chosen now, and of the best."""
    print(f"\n{'chosen / best kernel, by variant':40s}" + "".join(f"{k:>14d}" for k in range(len(VARIANTS))))
    sums = {}
    for case, kernels in cases.items():
        shown = ""
        for variant in VARIANTS:
            parts = [(a["part"], a["chosen"]) for a in kernels if a["variant"] == variant and "part" in a]
            chosen = next((part for part, is_chosen in parts if is_chosen), None)
            shown += f"{chosen:7.3f}/{max(parts)[0]:.3f} " if chosen else f"{'-':>13s} "
            if chosen:
                sums.setdefault(variant, []).append(chosen)
        print(f"{case:40s}{shown}")
    for k, variant in enumerate(VARIANTS):
        if variant in sums:
            print(f"{k:2d} {variant:32s} mean {statistics.mean(sums[variant]):.3f} of {len(sums[variant])} cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="what --compile made; with it, the candidates and where machine code goes")
    parser.add_argument("--compile", action="store_true", help="compile, which needs no GPU")
    parser.add_argument("--nvrtc", default="libnvrtc.so.13", help="the library of the compiler")
    parser.add_argument("--only", default="", help="cases that this pattern is found in")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shown", type=int, default=6, help="kernels of a case that are printed")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.compile:
        return compile_all(options, *options.folders)
    sys.exit(1 if measure(options) else 0)


if __name__ == "__main__":
    main()
