"""Moves on a GPU: are they right, and how fast are they?

    python bench/gpu.py                     all parts, in about nine minutes
    python bench/gpu.py --check --seconds 300
    python bench/gpu.py --measure --quick   smaller tensors, fewer rounds
    python bench/gpu.py --capture           CUDA graphs, torch.compile, streams, other libraries, refusals
    python bench/gpu.py --check --cases 300 --measure --rounds 9 --compiled 'padded|restickify'
                                            in about a minute and a half: torch.compile, which compiles for seconds, only in
                                            rows whose name has the pattern

Check: thousands of random pairs of layouts, bit for bit beside the engine for the CPU (bench/gpu_pairs.py), in several
processes. Measure: the same move by `zellige.relayout`, by PyTorch eager and by `torch.compile`, one after the other
in every round, as parts of the device's own copy of 1 GiB in the same run; medians. Every result that is timed is
compared with PyTorch's first. Each part adds to a file of figures (--json), and docs/gpu-results.md is written from
that file, so that parts may run one at a time; both are written after every row. A row without torch.compile shows
the figure of the report before in brackets, and parts that did not run are kept from there. A failure never ends the run: all are listed at the end, and the exit
status is 1.

Under compute-sanitizer:  compute-sanitizer --tool memcheck python bench/gpu_pairs.py --cases 40 --seconds 500
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEVICE = "cuda"


def environment():
    """What the figures depend on."""
    import torch
    import zellige
    from zellige import _native

    name, arch, multiprocessors, nvrtc = _native.cuda_device(0)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "device": f"{name}, sm_{arch}, {multiprocessors} multiprocessors",
        "driver": driver.stdout.split("\n")[0].strip() or "unknown",
        "torch": f"{torch.__version__} (CUDA {torch.version.cuda})",
        "nvrtc": ".".join(map(str, nvrtc)),
        "python": platform.python_version(),
        "zellige": zellige.__version__,
    }


# --- check -----------------------------------------------------------------------------------------------------------


def check(options, failures):
    """Runs the random pairs in several processes, restarting one that an error of the device ended."""
    begun = time.monotonic()
    seconds = options.seconds * (0.4 if options.all_parts else 0.35 if options.measure else 1)
    workers, share = options.workers, math.ceil(options.cases / options.workers)
    counts, refused, rows, lost = Counter(), 0, [], 0

    def start(worker, done):
        left = max(1.0, seconds - (time.monotonic() - begun))
        arguments = ["--first", worker + done * workers, "--step", workers, "--cases", share - done, "--seconds", left, "--seed", options.seed]
        command = [sys.executable, str(HERE / "gpu_pairs.py"), *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    running = {worker: (start(worker, 0), 0) for worker in range(workers)}
    while running:
        for worker, (process, done) in list(running.items()):
            out, err = process.communicate()
            found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            done += len(found)
            for row in found:
                counts[row["kind"]] += 1
                if row["said"] == "refused":
                    refused += 1
                elif row["said"] is not None:
                    rows.append(row)
            late = time.monotonic() - begun > seconds
            if process.returncode != 0 and process.returncode != 3:
                # It said nothing about the case that ended it.
                rows.append({"number": worker + done * workers, "kind": "?", "said": f"the process ended with {process.returncode}: {err[-800:]}"})
                done += 1
            if process.returncode != 0 and done < share and not late:
                lost += 1
                running[worker] = (start(worker, done), done)
            else:
                del running[worker]
    for row in rows[:40]:
        print(f"  WRONG case {row['number']}: {row['said']}\n        {row.get('case', '')}", flush=True)
    failures += [f"case {row['number']} (seed {options.seed}): {row['said']}" for row in rows]
    total = sum(counts.values())
    print(f"checked {total} pairs in {time.monotonic() - begun:.0f} s: {len(rows)} wrong, {refused} refused by both engines, {lost} processes lost")
    return {
        "pairs": total, "wrong": len(rows), "refused": refused, "kinds": dict(sorted(counts.items())),
        "seed": options.seed, "seconds": round(time.monotonic() - begun), "rows": rows[:200],
    }


# --- measure ---------------------------------------------------------------------------------------------------------


def table(quick):
    """Rows of the table: a name, a dtype, a shape, the permutation, and how zellige is asked (None: by strides)."""
    half = 4 if quick else 1

    def n(size):
        return size // half

    rows = []

    def permute(name, shape, order, dtype="float16", group="table"):
        rows.append({"group": group, "name": name, "dtype": dtype, "shape": shape, "order": order, "kind": "permute"})

    def other(kind, name, shape, dtype="float16", group="table", **more):
        rows.append({"group": group, "name": name, "dtype": dtype, "shape": shape, "kind": kind, **more})

    a, b = n(16384), n(32768)
    other("stickify", f"stickify {a}x{a} f16", [a, a])
    other("stickify", f"stickify {n(128)}x4096x1024 f16, default order", [n(128), 4096, 1024])
    other("restickify", f"restickify {a}x{a} f16", [a, a])
    permute(f"transpose {a}x{a} f16", [a, a], (1, 0))
    permute(f"transpose {a}x{a} f32", [a, a], (1, 0), "float32")
    permute(f"transpose {b}x{b} int8", [b, b], (1, 0), "int8")
    permute(f"transpose {a}x8192 f64", [a, 8192], (1, 0), "float64")
    permute(f"transpose {a}x4096 complex128", [a, 4096], (1, 0), "complex128")
    permute(f"permute (2,1,0) {n(1024)}x512x512 f16", [n(1024), 512, 512], (2, 1, 0))
    permute(f"permute (0,2,1) {n(512)}x1024x1024 f16", [n(512), 1024, 1024], (0, 2, 1))
    permute(f"permute (0,2,1,3) {n(32)}x2048x64x128 f16", [n(32), 2048, 64, 128], (0, 2, 1, 3))
    permute(f"NCHW -> NHWC {n(64)}x256x128x128 f16", [n(64), 256, 128, 128], (0, 2, 3, 1))
    permute(f"NHWC -> NCHW {n(64)}x128x128x256 f16", [n(64), 128, 128, 256], (0, 3, 1, 2))
    permute(f"permute (4,2,0,3,1) {n(16)}x32x64x32x256 f16", [n(16), 32, 64, 32, 256], (4, 2, 0, 3, 1))

    permute(f"transpose {a - 1}x{a - 3} f16", [a - 1, a - 3], (1, 0), group="odd sizes")
    permute(f"transpose {a - 1}x{a - 3} f32", [a - 1, a - 3], (1, 0), "float32", "odd sizes")
    permute(f"transpose {b - 1}x{b - 3} int8", [b - 1, b - 3], (1, 0), "int8", "odd sizes")
    permute(f"permute (0,2,1) {n(129)}x1023x1021 f16", [n(129), 1023, 1021], (0, 2, 1), group="odd sizes")
    permute(f"NCHW -> NHWC {n(63)}x255x127x127 f16", [n(63), 255, 127, 127], (0, 2, 3, 1), group="odd sizes")
    permute(f"copy of a view {a}x{a - 2} f16", [a, a - 2], (0, 1), group="odd sizes")

    permute(f"permute (1,0,3,2,4) {n(16)}x32x64x32x256 f16", [n(16), 32, 64, 32, 256], (1, 0, 3, 2, 4), group="5-D")
    permute(f"permute (4,3,2,1,0) {n(32)}x16x64x32x128 f32", [n(32), 16, 64, 32, 128], (4, 3, 2, 1, 0), "float32", "5-D")
    permute(f"permute (2,4,1,0,3) {n(24)}x20x36x28x100 f16", [n(24), 20, 36, 28, 100], (2, 4, 1, 0, 3), group="5-D")
    permute(f"permute (3,1,4,0,2) {n(64)}x48x17x33x50 int8", [n(64), 48, 17, 33, 50], (3, 1, 4, 0, 2), "int8", "5-D")

    other("stickify", f"stickify {a}x{a - 28} f16, padded", [a, a - 28], group="padding, conversion")
    other("stickify", f"stickify {n(128)}x4095x1000 f16, padded", [n(128), 4095, 1000], group="padding, conversion")
    other("unstickify", f"sticks {a}x{a - 28} f16 -> rows", [a, a - 28], group="padding, conversion")
    other("convert", f"stickify {a}x{a} f32 -> f16", [a, a], "float32", "padding, conversion", to="float16")
    other("convert", f"stickify {a}x{a} f16 -> f32", [a, a], "float16", "padding, conversion", to="float32")
    other("turn", f"transpose {a}x{a} f32 -> bf16", [a, a], "float32", "padding, conversion", to="bfloat16")

    permute("transpose 512x1024 f16 (1 MiB)", [512, 1024], (1, 0), group="small")
    other("stickify", "stickify 512x1024 f16 (1 MiB)", [512, 1024], group="small")
    permute("permute (0,2,1,3) 1x128x32x128 f16 (1 MiB)", [1, 128, 32, 128], (0, 2, 1, 3), group="small")
    permute("transpose 2048x4096 f16 (16 MiB)", [2048, 4096], (1, 0), group="small")
    return rows


def contenders(row):
    """The source and, by name, functions that write the result; with what PyTorch calls the same elements."""
    import torch
    import zellige

    dtype, shape = getattr(torch, row["dtype"]), row["shape"]
    x = torch.empty(shape, dtype=dtype, device=DEVICE)
    raw = x.view(torch.uint8) if dtype != torch.complex128 else torch.view_as_real(x).view(torch.uint8)
    raw.random_(0, 100)
    kind = row["kind"]
    if kind == "permute":
        view = x.permute(row["order"])
        out = torch.empty(view.shape, dtype=dtype, device=DEVICE)
        return x, out, lambda: zellige.relayout(view, out=out), lambda o: o.copy_(x.permute(row["order"])), 2 * x.nbytes
    if kind == "turn":
        to = getattr(torch, row["to"])
        view = x.t()
        out = torch.empty(view.shape, dtype=to, device=DEVICE)
        return x, out, lambda: zellige.relayout(view, out=out), lambda o: o.copy_(x.t()), x.nbytes + out.nbytes
    to = row.get("to", row["dtype"])
    sticks = zellige.SpyreTensorLayout(shape, to)
    lanes = sticks.device_size[-1]
    if kind in ("stickify", "convert"):
        out = torch.empty(sticks.device_size, dtype=getattr(torch, to), device=DEVICE)
        padding = math.ceil(shape[-1] / lanes) * lanes - shape[-1]
        middle = [shape[-1] // lanes if not padding else math.ceil(shape[-1] / lanes), lanes]

        def usual(o):
            y = torch.nn.functional.pad(x, (0, padding)) if padding else x
            y = y.view(*shape[:-1], *middle)
            # The default order: the first dimension inside of the others, the sticks of a row in front of it.
            order = [*range(1, len(shape) - 1), len(shape) - 1, 0, len(shape)]
            return o.copy_(y.permute(order).reshape(o.shape) if padding else y.permute(order).view(o.shape))

        return x, out, lambda: zellige.relayout(x, None, sticks, out), usual, x.nbytes + out.nbytes
    if kind == "unstickify":
        source = zellige.relayout(x, None, sticks)
        out = torch.empty_like(x)
        return source, out, lambda: zellige.relayout(source, sticks, None, out), lambda o: o.copy_(source.permute(1, 0, 2).flatten(1)[:, : shape[-1]]), 2 * x.nbytes
    source = zellige.relayout(x, None, sticks)
    turned = sticks.restickify(0)
    out = torch.empty(turned.device_size, dtype=dtype, device=DEVICE)
    rows = shape[0]

    def usual(o):
        y = source.permute(1, 0, 2).reshape(rows, rows).t()
        return o.copy_(y.reshape(rows, rows // lanes, lanes).permute(1, 0, 2))

    return source, out, lambda: zellige.relayout(source, sticks, turned, out), usual, 2 * x.nbytes


def timed(function, calls=1):
    """Microseconds of a call on the device. A single call is queued behind a wait of the device, so that what the host does
    before the launch is not counted; several calls are timed as they come, with the host."""
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    if calls == 1:
        torch.cuda._sleep(400_000)
    begin.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1000 / calls


def prepare(options):
    """Makes every move of the tables once, so that the cache on disk has the machine code of its kernels."""
    import torch

    for row in table(options.quick):
        if not options.only or options.only in row["name"]:
            torch.cuda.empty_cache()
            contenders(row)[2]()
            torch.cuda.synchronize()


def measure(options, failures, save):
    """The tables: medians of rounds in which the contenders take turns."""
    import torch

    begun = time.monotonic()
    seconds = options.seconds * (0.5 if options.all_parts else 0.65 if options.check else 1)
    rounds = options.rounds or (7 if options.quick else 15)
    copies = [torch.zeros(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2)]
    copy = lambda: copies[1].copy_(copies[0])  # noqa: E731
    for _ in range(3):
        copy()
    found, all_copies = [], []
    figures = {"copy_gbs": 0, "rows": found, "host": {}, "quick": options.quick, "rounds": rounds}
    compiled_rows = re.compile(options.compiled)
    # Rows with torch.compile take seconds: they come last, and what is cut off is theirs.
    rows = sorted(table(options.quick), key=lambda row: bool(options.compiled and compiled_rows.search(row["name"])))
    for row in rows:
        if options.only and options.only not in row["name"]:
            continue
        if time.monotonic() - begun > seconds:
            failures.append(f"no time was left for {row['name']}")
            continue
        result = {"group": row["group"], "name": row["name"]}
        try:
            torch.cuda.empty_cache()
            x, out, ours, usual, nbytes = contenders(row)
            result["bytes"] = nbytes
            usual(out)
            wanted = out.clone()
            out.zero_()
            ours()
            torch.cuda.synchronize()
            if not torch.equal(out.view(torch.uint8) if out.dtype != torch.complex128 else torch.view_as_real(out), wanted.view(torch.uint8) if out.dtype != torch.complex128 else torch.view_as_real(wanted)):
                failures.append(f"{row['name']}: the result is not PyTorch's")
                result["wrong"] = True
            del wanted
            runs = {"zellige": ours, "eager": lambda: usual(out)}
            if not options.no_compile and compiled_rows.search(row["name"]):
                try:
                    torch._dynamo.reset()
                    compiled = torch.compile(lambda o: usual(o), dynamic=False)
                    for _ in range(2):
                        compiled(out)
                    runs["compile"] = lambda: compiled(out)
                except Exception as error:  # noqa: BLE001
                    result["compile_error"] = str(error)[:300]
            small = row["group"] == "small"
            times = {name: [] for name in (*runs, "copy")}
            for function in runs.values():
                for _ in range(2):
                    function()
            torch.cuda.synchronize()
            for _ in range(rounds):
                for name, function in runs.items():
                    times[name].append(timed(function, 20 if small else 1))
                times["copy"].append(timed(copy))
            all_copies += times["copy"]
            result["us"] = {name: round(statistics.median(t), 2) for name, t in times.items()}
            result["spread"] = {name: [round(min(t), 2), round(max(t), 2)] for name, t in times.items()}
            del x, out, ours, usual, runs
        except Exception as error:  # noqa: BLE001
            result["error"] = f"{type(error).__name__}: {str(error)[:400]}"
            failures.append(f"{row['name']}: {result['error']}")
        if "us" in result and result["group"] != "small":
            copied = 2 * (1 << 30) / result["us"]["copy"]
            result["parts"] = {name: round(result["bytes"] / us / copied, 3) for name, us in result["us"].items() if name != "copy"}
        found.append(result)
        print_row(result)
        figures["copy_gbs"] = round(2 * (1 << 30) / statistics.median(all_copies) / 1e3) if all_copies else 0
        save(figures)
    names = [row["name"] for row in table(options.quick)]
    found.sort(key=lambda result: names.index(result["name"]))
    print(f"copy of 1 GiB: {figures['copy_gbs']} GB/s")
    figures["host"] = host_cost(failures)
    return figures


def print_row(result):
    if "us" not in result:
        print(f"{result['name']:52s} {result.get('error', '')}", flush=True)
        return
    copied = 2 * (1 << 30) / result["us"]["copy"]
    shown = "  ".join(f"{name} {us:9.1f} us ({result['bytes'] / us / copied:4.2f})" for name, us in result["us"].items() if name != "copy")
    print(f"{result['name']:52s} {shown}{'  WRONG' if result.get('wrong') else ''}", flush=True)


def host_cost(failures):
    """Microseconds of the host for a call that was made before, by kinds of calls."""
    import torch
    import zellige

    x = torch.zeros(64, 128, dtype=torch.float16, device="cuda")
    out = torch.empty(128, 64, dtype=torch.float16, device="cuda")
    sticks = zellige.SpyreTensorLayout([64, 128], "float16")
    text, view = "S[(64,128):(1,64)]", x.t()
    calls = {
        "relayout(x.t(), out=out), the view made before": lambda: zellige.relayout(view, out=out),
        "relayout(x, None, text)": lambda: zellige.relayout(x, None, text),
        "relayout(x, None, layout)": lambda: zellige.relayout(x, None, sticks),
        "PyTorch: out.copy_(x.t())": lambda: out.copy_(view),
        "PyTorch: x.t().contiguous()": lambda: view.contiguous(),
    }
    found = {}
    for name, call in calls.items():
        try:
            for _ in range(20):
                call()
            torch.cuda.synchronize()
            times = []
            for _ in range(15):
                begin = time.perf_counter()
                for _ in range(200):
                    call()
                times.append((time.perf_counter() - begin) / 200 * 1e6)
                torch.cuda.synchronize()
            found[name] = round(statistics.median(times), 2)
            print(f"host cost of {name}: {found[name]} us", flush=True)
        except Exception as error:  # noqa: BLE001
            failures.append(f"host cost of {name}: {error}")
    return found


# --- capture ---------------------------------------------------------------------------------------------------------


def capture(options, failures):
    """What must not break: graphs, compiled functions, streams, threads, other libraries, refusals."""
    import threading

    import torch
    import zellige

    results = {}

    def run(name, function):
        try:
            said = function()
        except Exception as error:  # noqa: BLE001
            said = f"{type(error).__name__}: {str(error)[:600]}"
        results[name] = said or "ok"
        if said:
            failures.append(f"{name}: {said}")
        print(f"  {'ok    ' if not said else 'FAILED'} {name}{': ' + said if said else ''}", flush=True)

    def rand(*shape, dtype=torch.float16):
        return torch.randn(shape, device="cuda").to(dtype)

    def graph(warm, rows):
        x, out = rand(rows, 96), torch.empty(96, rows, dtype=torch.float16, device="cuda")
        if warm:
            zellige.relayout(x.t(), out=out)
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            zellige.relayout(x.t(), out=out)
            y = zellige.relayout(out.t(), None, f"S[({rows},96):(1,{rows})]")
        for _ in range(3):
            x.copy_(rand(rows, 96))
            g.replay()
            torch.cuda.synchronize()
            if not torch.equal(out, x.t()) or not torch.equal(y.view(96, rows), x.t()):
                return "a replay has other elements"

    run("CUDA graph, kernels compiled before", lambda: graph(True, 160))
    run("CUDA graph, kernels compiled while it is captured", lambda: graph(False, 176))

    def compiled(layout, mode=None, **more):
        function = torch.compile(lambda x: zellige.relayout(x * 2, None, layout) + 1, fullgraph=True, mode=mode)
        for _ in range(4):
            x = rand(64, 128)
            wanted = zellige.relayout(x * 2, None, layout) + 1
            if not torch.equal(function(x), wanted):
                return "other elements than eager"

    run("torch.compile with a text", lambda: compiled("S[(64,128):(1,64)]"))
    run("torch.compile with a Layout", lambda: compiled(zellige.Layout("S[(64,128):(1,64)]")))
    run("torch.compile with a SpyreTensorLayout", lambda: compiled(zellige.SpyreTensorLayout([64, 128], "float16")))
    run("torch.compile, reduce-overhead (CUDA graphs)", lambda: compiled("S[(64,128):(1,64)]", "reduce-overhead"))

    def compiled_out():
        def function(x, out):
            zellige.relayout(x + 1, out=out)
            return out * 2

        both = []
        for call in (torch.compile(function, fullgraph=True), function):
            torch.manual_seed(7)
            x, out = rand(32, 48), torch.zeros(48, 32, dtype=torch.float32, device="cuda").t()
            both += [call(x, out), out]
        if not (torch.equal(both[0], both[2]) and torch.equal(both[1], both[3])):
            return "other elements than eager"

    run("torch.compile with out= and a conversion", compiled_out)

    def side_stream():
        x = rand(2048, 2048)
        out, stream = torch.zeros(2048, 2048, dtype=torch.float16, device="cuda"), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(20):
                x.add_(1)
            zellige.relayout(x.t(), out=out)
            same = torch.equal(out, x.t())
        return None if same else "the move did not wait for its stream"

    run("a stream of its own", side_stream)

    def threads():
        wrong = []

        def work(i):
            x = rand(100 + i, 70)
            for _ in range(20):
                if not torch.equal(zellige.relayout(x.t()), x.t()):
                    wrong.append(i)

        all_threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [t.start() for t in all_threads]
        [t.join() for t in all_threads]
        return f"threads {wrong}" if wrong else None

    run("eight threads", threads)

    def cupy_arrays():
        import cupy

        a = cupy.arange(60, dtype=cupy.float32).reshape(6, 10)
        b = zellige.relayout(a, None, "S[(6,10):(1,6)]")
        if not isinstance(b, cupy.ndarray) or not (b.reshape(10, 6) == a.T).all():
            return "other elements"
        out = torch.zeros(10, 6, dtype=torch.float64, device="cuda")
        zellige.relayout(a.T, out=out)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            c = zellige.relayout(a.T)
            same = bool((c == a.T).all())
        return None if same and torch.equal(out.cpu(), torch.arange(60.0, dtype=torch.float64).reshape(6, 10).T) else "other elements"

    run("arrays of CuPy", cupy_arrays)

    def refused(name, call, kind, part):
        def function():
            try:
                call()
            except kind as error:
                torch.cuda.synchronize()
                return None if part in str(error) else f"it says {error}"
            return "it is not refused"

        run(f"refused: {name}", function)

    x = rand(64, 128)

    def freed():
        y = rand(16, 16)
        y.untyped_storage().resize_(0)
        zellige.relayout(y)

    refused("an `out` on the CPU", lambda: zellige.relayout(x, out=torch.empty(64, 128, dtype=torch.float16)), ValueError, "a move stays in one memory")
    refused("an array on the CPU with `out` on the GPU", lambda: zellige.relayout(x.cpu(), out=x), ValueError, "a move stays in one memory")
    refused("two elements in one place", lambda: zellige.relayout(x, None, "S[(64,128):(1,1)]"), zellige.LayoutError, "")
    refused("a storage that was freed", freed, ValueError, "no memory")
    refused("an `out` that is too short", lambda: zellige.relayout(x, None, "S[(64,128):(1,64)]", torch.empty(64, dtype=torch.float16, device="cuda")), zellige.LayoutError, "but the plan touches")
    refused("`out` is the array", lambda: zellige.relayout(x, out=x), ValueError, "shares memory")
    refused("a dtype without a conversion", lambda: zellige.relayout(x, out=torch.empty(64, 128, dtype=torch.complex64, device="cuda")), zellige.LayoutError, "complex64")
    refused("more than the memory", lambda: zellige.relayout(x, None, f"S[(64,128):({1 << 40},1)]"), torch.OutOfMemoryError, "")
    refused("another number of elements", lambda: zellige.relayout(x, None, "S[(64,127):(127,1)]"), ValueError, "")
    run("moves work after refusals", lambda: None if torch.equal(zellige.relayout(x.t()), x.t()) else "other elements")
    return results


# --- report ----------------------------------------------------------------------------------------------------------


def compiled_before(report):
    """What a report says of torch.compile, by the names of moves."""
    lines = report.split("\n## Used")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {row[0]: row[-1].strip("()") for row in rows if len(row) in (4, 5) and re.fullmatch(r"\(?[0-9.]+\)?", row[-1])}


def with_sections(text, before):
    """A report with the sections of an earlier one that it does not have."""
    new, old = ([part for part in re.split(r"^(?=## )", one, flags=re.MULTILINE)] for one in (text, before))
    titles = [part.split("\n")[0] for part in new]
    return "".join(new) + "".join(part for part in old[1:] if part.split("\n")[0] not in titles)


def markdown(figures, before=None):
    env, before = figures.get("environment", {}), before or {}

    def compiled(row, said):
        return said or (f"({before[row['name']]})" if row["name"] in before else "-")

    lines = ["# Moves on a GPU: results", "", "Written by `python bench/gpu.py`; the figures behind it are what `--json` names.", ""]
    lines += ["| | |", "|---|---|"] + [f"| {key} | {value} |" for key, value in env.items()] + [""]
    if "check" in figures:
        c = figures["check"]
        lines += ["## Right", "", f"{c['pairs']} random pairs of layouts (seed {c['seed']}), bit for bit beside the engine for the CPU, with {c['wrong']} differences;", f"{c['refused']} of them both engines refuse in the same words.", ""]
        lines += ["| kind | pairs |", "|---|---:|"] + [f"| {kind} | {n} |" for kind, n in c["kinds"].items()] + [""]
    if "measure" in figures:
        m = figures["measure"]
        size = ", a quarter of the usual sizes" if m.get("quick") else ""
        lines += ["## Fast", "", f"Parts of the speed of PyTorch's own copy of 1 GiB ({m['copy_gbs']} GB/s, bytes read and written), which took its turn in every", f"round; medians of {m['rounds']} rounds{size}. `us` is zellige's time. In brackets: torch.compile in an earlier run on such a device.", ""]
        for group in dict.fromkeys(row["group"] for row in m["rows"]):
            lines += [f"### {group[0].upper()}{group[1:]}", ""]
            if group == "small":
                lines += ["| move | zellige us | eager us | torch.compile us |", "|---|---:|---:|---:|"]
            else:
                lines += ["| move | us | zellige | eager | torch.compile |", "|---|---:|---:|---:|---:|"]
            for row in (r for r in m["rows"] if r["group"] == group):
                if "us" not in row:
                    lines.append(f"| {row['name']} | {row.get('error', 'no time was left')} |")
                elif group == "small":
                    shown = [f"{row['us'][n]:.1f}" if n in row["us"] else "" for n in ("zellige", "eager", "compile")]
                    lines.append(f"| {row['name']} | {shown[0]} | {shown[1]} | {compiled(row, shown[2])} |")
                else:
                    shown = [f"{row['parts'][n]:.2f}" if n in row["parts"] else "" for n in ("zellige", "eager", "compile")]
                    lines.append(f"| {row['name']}{' (wrong)' if row.get('wrong') else ''} | {row['us']['zellige']:.0f} | {shown[0]} | {shown[1]} | {compiled(row, shown[2])} |")
            lines.append("")
        lines += ["### The host", "", "Microseconds of the host for a call that was made before.", "", "| call | us |", "|---|---:|"]
        lines += [f"| {name} | {us} |" for name, us in m["host"].items()] + [""]
    if "capture" in figures:
        lines += ["## Used by others", "", "| what | |", "|---|---|"] + [f"| {name} | {said} |" for name, said in figures["capture"].items()] + [""]
    if "counters" in figures:
        c = figures["counters"]
        lines += ["## Predicted and counted", "", "Warp accesses of fragments: what the analysis says beside the hardware's counters (ncu).", "", "| access | wavefronts said | counted | sectors said | counted |", "|---|---:|---:|---:|---:|"]
        lines += [f"| {r['name']} | {r['wavefronts']} | {r['counted_wavefronts']} | {r['sectors']} | {r['counted_sectors']} |" for r in c] + [""]
    if figures.get("sanitizer"):
        lines += ["## compute-sanitizer", "", figures["sanitizer"], ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="random pairs")
    parser.add_argument("--measure", action="store_true", help="the tables")
    parser.add_argument("--capture", action="store_true", help="graphs, compiled functions, streams, refusals")
    parser.add_argument("--prepare", action="store_true", help="compile the kernels of the tables into the cache, and no more")
    parser.add_argument("--quick", action="store_true", help="quarter sizes and fewer rounds, 400 pairs")
    parser.add_argument("--seconds", type=float, default=540, help="for all parts together")
    parser.add_argument("--cases", type=int, help="pairs to check (4000)")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1), help="processes that check")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="measure rows whose name has this text")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out of the tables")
    parser.add_argument("--compiled", default="", help="measure torch.compile in rows that this pattern is found in, after the others")
    parser.add_argument("--rounds", type=int, help="of each row (15)")
    parser.add_argument("--json", type=Path, default=HERE.parent / "docs" / "gpu-results.json")
    parser.add_argument("--report", type=Path, default=HERE.parent / "docs" / "gpu-results.md")
    parser.add_argument("--before", type=Path, help="the report with earlier figures of torch.compile (--report)")
    options = parser.parse_args()
    if options.prepare:
        return prepare(options)
    options.cases = options.cases or (400 if options.quick else 4000)
    options.all_parts = not (options.check or options.measure or options.capture)
    figures = json.loads(options.json.read_text()) if options.json.exists() else {}
    failures = []
    figures["environment"] = environment()
    print("\n".join(f"{key}: {value}" for key, value in figures["environment"].items()), flush=True)
    earlier = options.before or options.report
    earlier = earlier.read_text() if earlier.exists() else ""
    before = compiled_before(earlier)
    options.json.parent.mkdir(parents=True, exist_ok=True)

    # A run that is cut off has written what it found.
    def save(name, found):
        figures[name] = found
        options.json.write_text(json.dumps(figures, indent=1))
        options.report.write_text(with_sections(markdown(figures, before), earlier))

    parts = {"check": check, "capture": capture, "measure": lambda o, f: measure(o, f, lambda found: save("measure", found))}
    for name, part in parts.items():
        if options.all_parts or getattr(options, name):
            try:
                save(name, part(options, failures))
            except Exception as error:  # noqa: BLE001
                failures.append(f"{name} ended: {type(error).__name__}: {error}")
    print(f"\n{len(failures)} failures")
    for failure in failures[:60]:
        print(f"  {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
