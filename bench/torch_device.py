"""What PyTorch's calls cost on top of the engine: python bench/torch_device.py [PROGRAM]

With the path of `zellige-bench`, transfers are also compared with the engine alone, in Rust. Every figure is
the best of several rounds, in microseconds or GB/s of host memory; the copy of as many bytes by numpy
stands beside transfers.
"""

import os
import subprocess
import sys
import time
import warnings

# PyTorch's threads wait by turning in circles, on the cores that the next call of somebody else needs.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
import zellige

warnings.simplefilter("ignore")


def best(function, rounds=7, calls=200):
    function()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls)
    return min(times)


def row(name, seconds, nbytes=None, beside=""):
    rate = f"{nbytes / seconds / 1e9:8.2f} GB/s" if nbytes else " " * 13
    print(f"{name:<44} {seconds * 1e6:10.2f} us {rate}  {beside}")


def calls():
    x = torch.rand(8, 64, dtype=torch.float16).to("spyre")
    y = x.clone()
    row("add of 8 x 64", best(lambda: x + y))
    row("add a number", best(lambda: x + 1))
    row("in place", best(lambda: x.mul_(1)))
    row("view", best(lambda: x.view(-1)))
    row("transpose", best(lambda: x.t()))
    row("empty", best(lambda: torch.empty(8, 64, dtype=torch.float16, device="spyre")))
    row("layout of a tensor", best(lambda: zellige._native.tensor_layout(x)))
    large = torch.rand(256, 256, dtype=torch.float16).to("spyre")
    row("add of 256 x 256", best(lambda: large + large))
    row("softmax of 256 x 256", best(lambda: large.softmax(-1)))
    c = torch.rand(8, 64, dtype=torch.float16)
    row("PyTorch's CPU: add of 8 x 64", best(lambda: c + c))


def engine_alone(program):
    """Seconds of transfers in `zellige-bench device`, by name."""
    if program is None:
        return {}
    table = subprocess.run([program, "device", "float16", "load"], capture_output=True, text=True, check=True).stdout
    cells = [[c.strip() for c in line.split("|")] for line in table.splitlines() if line.startswith("| ")]
    return {c[1]: [float(c[3].removesuffix(" ms")) / 1e3] for c in cells if len(c) > 3 and c[3].endswith(" ms")}


def transfers(program):
    engine = engine_alone(program)
    for size in ((1024, 1024), (4096, 4096)):
        x = torch.rand(size, dtype=torch.float16)
        nbytes = x.numel() * 2
        a, b = x.numpy(), np.empty_like(x.numpy())
        copy = best(lambda: np.copyto(b, a), calls=5)
        y = x.to("spyre")
        beside = lambda way, took: "".join(f", {seconds / took:.2f} of the engine alone" for seconds in engine.get(f"{way} {size[0]}x{size[1]} float16", []))
        took = best(lambda: y.copy_(x), calls=5)
        row(f"upload {size}", took, nbytes, f"copy {nbytes / copy / 1e9:.2f} GB/s{beside('upload', took)}")
        took = best(lambda: x.copy_(y), calls=5)
        row(f"download {size}", took, nbytes, f"copy {nbytes / copy / 1e9:.2f} GB/s{beside('download', took)}")


def moves():
    a, out = np.random.rand(8, 64).astype(np.float32), np.empty(512, np.float32)
    src, dst = zellige.Layout("S[(8,64):(64,1)]"), zellige.Layout("S[(8,64):(1,8)]")
    row("relayout of 8 x 64, numpy", best(lambda: zellige.relayout(a, src, dst, out)))
    t, o = torch.from_numpy(a), torch.from_numpy(out)
    row("relayout of 8 x 64, PyTorch", best(lambda: zellige.relayout(t, src, dst, o)))


# Name, dtype, the sizes that the tensor is seen with, and the order in which the move puts them.
RELAYOUTS = [
    ("to sticks 4096x4096", np.float16, (4096, 64, 64), (1, 0, 2)),
    ("to sticks 128x256x512", np.float16, (128, 256, 8, 64), (1, 2, 0, 3)),
    ("from sticks 4096x4096", np.float16, (64, 4096, 64), (1, 0, 2)),
    ("restickify 4096x4096", np.float16, (64, 64, 64, 64), (1, 0, 3, 2)),
    ("transpose 4096x4096", np.float16, (4096, 4096), (1, 0)),
    ("transpose 4096x4096", np.float32, (4096, 4096), (1, 0)),
    ("transpose 1000x200", np.float32, (1000, 200), (1, 0)),
    ("heads out 8x2048x32x128", np.float16, (8, 2048, 32, 128), (0, 2, 1, 3)),
    ("permute 256x256x512 to 2 0 1", np.float32, (256, 256, 512), (2, 0, 1)),
    ("NCHW to NHWC 32x64x112x112", np.float32, (32, 64, 112 * 112), (0, 2, 1)),
    ("NHWC to NCHW 32x64x112x112", np.float32, (32, 112 * 112, 64), (0, 2, 1)),
    ("to nChw16c 32x64x112x112", np.float32, (32, 4, 16, 112 * 112), (0, 1, 3, 2)),
]


def layouts(size, order):
    """Row-major, and row-major after the dimensions are put in this order."""
    def strides(sizes):
        return [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]

    moved = strides([size[d] for d in order])
    to = [moved[order.index(d)] for d in range(len(size))]
    text = lambda s: f"S[({','.join(map(str, size))}):({','.join(map(str, s))})]"
    return zellige.Layout(text(strides(size))), zellige.Layout(text(to))


def relayouts():
    """``zellige.relayout`` beside the same move in numpy and PyTorch, on all threads that each has."""
    for name, dtype, size, order in RELAYOUTS:
        x = np.random.rand(*size).astype(dtype)
        out, into = np.empty(x.size, dtype), np.empty([size[d] for d in order], dtype)
        src, dst = layouts(size, order)
        tx, ti = torch.from_numpy(x), torch.from_numpy(into)
        ours, np_, torch_ = (lambda: zellige.relayout(x, src, dst, out)), (lambda: np.copyto(into, x.transpose(order))), (lambda: ti.copy_(tx.permute(order)))
        ours(), np_()
        assert np.array_equal(out, into.ravel()), name
        # They take turns, so that a busy moment hits all of them.
        times = [[], [], []]
        for _ in range(9):
            for list_, call in zip(times, (ours, np_, torch_)):
                start = time.perf_counter()
                call()
                list_.append(time.perf_counter() - start)
        mine, other, third = (sorted(t)[4] for t in times)
        row(f"{name} {np.dtype(dtype).name}", mine, x.nbytes, f"{min(other, third) / mine:.2f} of the best: numpy {other * 1e3:.2f} ms, PyTorch {third * 1e3:.2f} ms")


def sentences():
    try:
        import pathlib

        sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python" / "tests"))
        import models

        tokenizer, model = models.sentence_model()
    except Exception as error:  # noqa: BLE001 - the rest of the table stands without it
        print(f"MiniLM is not installed ({error})")
        return
    run = lambda m, d: best(lambda: models.embed(tokenizer, m, d), rounds=3, calls=3)
    cpu = run(model, "cpu")
    row("MiniLM, PyTorch's CPU in float32", cpu)
    device = model.to("spyre")
    row("MiniLM, eager on the card", run(device, "spyre"))
    with torch.no_grad():
        compiled = torch.compile(device, backend="spyre")
        seconds = run(compiled, "spyre")
    row("MiniLM, compiled onto the card", seconds, beside=f"{seconds / cpu:.1f} times the CPU")


if __name__ == "__main__":
    calls()
    transfers(sys.argv[1] if len(sys.argv) > 1 else None)
    moves()
    relayouts()
    sentences()
