"""Formats with infinities keep them everywhere: float32 as it is stored by default."""

import math
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

INF = math.inf
ODD = torch.tensor([-INF, INF, math.nan, 1e10, -3.4e38, 1e-40, 0.0, -0.0, 5e9])


def same(got, want):
    return torch.equal(got.cpu().nan_to_num(nan=7.0, posinf=INF, neginf=-INF), want.nan_to_num(nan=7.0, posinf=INF, neginf=-INF))


def test_round_trip():
    assert same(ODD.to("spyre"), ODD) and "IEEE_FP32" in str(ODD.to("spyre").device_tensor_layout())
    assert torch.full((2,), -INF, device="spyre").tolist() == [-INF, -INF]


CASES = {
    "operand": lambda x: x + INF,
    "difference": lambda x: x - INF,
    "where": lambda x: torch.where(x > 0, x, -INF),
    "masked_fill": lambda x: x.masked_fill(x > 0, -INF),
    "masked_softmax": lambda x: torch.zeros(3, 3, device=x.device).masked_fill(torch.ones(3, 3, dtype=torch.bool, device=x.device).triu(1), -INF).softmax(-1) + x[6],
    "full_like": lambda x: torch.full_like(x, INF),
    "not_a_number": lambda x: torch.full_like(x, math.nan),
    "clamp": lambda x: x.clamp(min=-INF, max=1.0),
    "isinf": lambda x: x.isinf(),
    "isfinite": lambda x: x.isfinite(),
    "equal": lambda x: x == -INF,
    "product": lambda x: x * 0,
    "sum": lambda x: x[:2].sum(),
    "all_masked": lambda x: (x[:1].expand(4) + 0).softmax(-1),
    "log": lambda x: x.abs().log(),
    "pad": lambda x: F.pad(x, (1, 1), value=-INF),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x) - INF),
}


@pytest.mark.parametrize("name", CASES)
def test_eager(name):
    want = CASES[name](ODD)
    assert same(CASES[name](ODD.to("spyre")).to(want.dtype), want)


def test_compiled():
    f = lambda x: [case(x) for case in CASES.values()]
    before = torch.spyre.fallbacks()
    for name, got, want in zip(CASES, torch.compile(f, backend="spyre")(ODD.to("spyre")), f(ODD)):
        assert same(got, want), (name, got, want)
    assert torch.spyre.fallbacks().keys() == before.keys()


def test_float16_has_infinities_of_its_own_in_ieee_mode():
    code = "import torch; x = torch.tensor([-float('inf'), 1e4, float('inf')]).half().to('spyre'); print((x * 100).tolist(), (x * 0).isnan().tolist(), torch.compile(lambda x: torch.where(x > 0, x, -float('inf')), backend='spyre')(x).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "ZELLIGE_FLOAT16": "ieee"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[-inf, inf, inf] [True, False, True] [-inf, 10000.0, inf]", done.stdout


def test_float16_meets_float32_with_its_infinities():
    x = torch.tensor([-INF, 1.0, INF]).half().to("spyre")
    assert x.float().tolist() == [-INF, 1.0, INF]
    assert (x + torch.zeros(3, device="spyre")).tolist() == [-INF, 1.0, INF]
    assert (torch.zeros(3, device="spyre") * x).isnan().tolist() == [True, False, True]


def test_the_gradient_of_relu():
    def gradient(device):
        x = torch.tensor([-1.0, 0.0, 2.0, math.nan, INF, -INF]).to(device).requires_grad_()
        torch.relu(x).backward(torch.tensor([1.0, 2.0, 3.0, 4.0, math.nan, 6.0]).to(device))
        return x.grad

    assert same(gradient("spyre"), gradient("cpu"))


CODE = "import torch; print(*(t.to('spyre').device_tensor_layout().device_dtype.name for t in (torch.ones(3), torch.arange(3))))"
WIDE, NARROW = ["IEEE_FP32", "IEEE_INT64"], ["SEN169_FP16", "IEEE_INT32"]
SAID = [
    ({}, WIDE),
    ({"ZELLIGE_PROFILE": "card"}, NARROW),
    ({"ZELLIGE_PROFILE": "card", "ZELLIGE_FP32": "keep"}, [WIDE[0], NARROW[1]]),
    ({"ZELLIGE_INT64": "downcast"}, [WIDE[0], NARROW[1]]),
    ({"ZELLIGE_INT64": "yes"}, None),
]


def test_the_environment_says_what_is_kept():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ZELLIGE_") or k == "ZELLIGE_DEVICES"}
    begun = [
        subprocess.Popen([sys.executable, "-c", CODE if want else "import torch"], env={**clean, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for env, want in SAID
    ]
    for process, (env, want) in zip(begun, SAID):
        out, err = process.communicate()
        assert process.returncode == 0, err
        if want is None:
            assert "`keep` or `downcast`" in err
            continue
        assert out.split() == want, env
        assert err.count("stored in 16 bits") == (want[0] == NARROW[0]) and err.count("stored in 32 bits") == (want[1] == NARROW[1])
