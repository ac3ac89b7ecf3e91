"""What PyTorch's calls cost on top of the engine: python bench/torch_device.py

Every figure is the best of several rounds, in microseconds or GB/s of host memory; the copy of as many
bytes by numpy stands beside transfers.
"""

import time
import warnings

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
    c = torch.rand(8, 64, dtype=torch.float16)
    row("PyTorch's CPU: add of 8 x 64", best(lambda: c + c))


def transfers():
    for size in ((1024, 1024), (4096, 4096)):
        x = torch.rand(size, dtype=torch.float16)
        nbytes = x.numel() * 2
        a, b = x.numpy(), np.empty_like(x.numpy())
        copy = best(lambda: np.copyto(b, a), calls=5)
        y = x.to("spyre")
        row(f"upload {size}", best(lambda: y.copy_(x), calls=5), nbytes, f"copy {nbytes / copy / 1e9:.2f} GB/s")
        row(f"download {size}", best(lambda: x.copy_(y), calls=5), nbytes)


def moves():
    a, out = np.random.rand(8, 64).astype(np.float32), np.empty(512, np.float32)
    src, dst = zellige.Layout("S[(8,64):(64,1)]"), zellige.Layout("S[(8,64):(1,8)]")
    row("relayout of 8 x 64, numpy", best(lambda: zellige.relayout(a, src, dst, out)))
    t, o = torch.from_numpy(a), torch.from_numpy(out)
    row("relayout of 8 x 64, PyTorch", best(lambda: zellige.relayout(t, src, dst, o)))
    big = np.random.rand(2048, 2048).astype(np.float32)
    into = np.empty((2048, 2048), np.float32)
    row("relayout of 2048 x 2048, transposed", best(lambda: zellige.relayout(big, None, "S[(2048,2048):(1,2048)]", into), calls=3), big.nbytes)
    row("numpy: the same", best(lambda: np.copyto(into, big.T), calls=3), big.nbytes)
    tb, ti = torch.from_numpy(big), torch.from_numpy(into)
    row("PyTorch: the same", best(lambda: ti.copy_(tb.t()), calls=3), big.nbytes)


def sentences():
    try:
        import pathlib
        import sys

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
    transfers()
    moves()
    sentences()
