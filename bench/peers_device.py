"""Operations of the simulated card on numpy and PyTorch, in float32, one JSON line per line.

The first line out names the versions. A request {"op": .., "sizes": [[..], ..], "rounds": n} is
answered with {"numpy": seconds, "torch": seconds}; a text instead of a number says why there is none.
"""

import json
import sys
import time

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None


def numpy_op(op, x):
    if op == "add":
        out = np.empty_like(x[0])
        return lambda: np.add(x[0], x[1], out=out)
    if op == "exp":
        out = np.empty_like(x[0])
        return lambda: np.exp(x[0], out=out)
    if op == "matmul":
        out = np.empty((x[0].shape[0], x[1].shape[1]), np.float32)
        return lambda: np.matmul(x[0], x[1], out=out)
    if op == "softmax":

        def softmax():
            e = np.exp(x[0] - x[0].max(axis=-1, keepdims=True))
            return e / e.sum(axis=-1, keepdims=True)

        return softmax
    if op == "layer_norm":

        def layer_norm():
            d = x[0] - x[0].mean(axis=-1, keepdims=True)
            return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5)

        return layer_norm
    return None


def torch_op(op, x):
    F = torch.nn.functional
    out = torch.matmul(x[0], x[1]) if op == "matmul" else torch.empty_like(x[0])
    return {
        "add": lambda: torch.add(x[0], x[1], out=out),
        "exp": lambda: torch.exp(x[0], out=out),
        "gelu": lambda: F.gelu(x[0]),
        "softmax": lambda: torch.softmax(x[0], -1),
        "layer_norm": lambda: F.layer_norm(x[0], x[0].shape[-1:]),
        "matmul": lambda: torch.matmul(x[0], x[1], out=out),
    }.get(op)


def best(call, rounds):
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def answer(request):
    sizes, rounds = request["sizes"], request["rounds"]
    out = {}
    for name, library, make in (("numpy", np, numpy_op), ("torch", torch, torch_op)):
        if library is None:
            out[name] = "not installed"
            continue
        try:
            if name == "numpy":
                x = [np.random.default_rng(1).standard_normal(s, np.float32) for s in sizes]
            else:
                torch.manual_seed(1)
                x = [torch.randn(s) for s in sizes]
            call = make(request["op"], x)
            out[name] = "-" if call is None else best(call, rounds)
        except Exception as error:
            out[name] = f"{type(error).__name__}"
    return out


def version(library):
    return "not installed" if library is None else library.__version__


print(json.dumps({"numpy": version(np), "torch": version(torch)}), flush=True)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
