"""Numbers past the 16 bits of the card: they saturate, and come back as infinities."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

INF = float("inf")
# The number that stands for an infinity, and the largest one below it.
STANDS, LARGEST = 4286578688.0, 4282384384.0


def up(x, dtype=torch.float32):
    return torch.as_tensor(x, dtype=dtype).to("spyre")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_infinities_come_back(dtype):
    x = torch.tensor([-INF, INF, float("nan"), 1.0, 0.0, -0.0]).to(dtype)
    y = x.to("spyre").cpu()
    assert torch.equal(y.nan_to_num(nan=7.0, posinf=INF, neginf=-INF), x.nan_to_num(nan=7.0, posinf=INF, neginf=-INF))
    assert y[2].isnan() and not y[[0, 1, 3, 4, 5]].isnan().any()


def test_what_is_past_the_format_is_an_infinity_and_what_is_not_is_a_number():
    x = up([1e10, -1e38, STANDS, LARGEST, -LARGEST, 4.2e9])
    assert x.cpu().tolist()[:5] == [INF, -INF, INF, LARGEST, -LARGEST]
    assert abs(x[5].item() / 4.2e9 - 1) < 2**-9


WAYS_IN = {
    "upload": lambda v: up([v, v]),
    "full": lambda v: torch.full((2,), v, device="spyre"),
    "fill_": lambda v: torch.zeros(2, device="spyre").fill_(v),
    "setitem": lambda v: _set(torch.zeros(2, device="spyre"), v),
    "masked_fill": lambda v: torch.zeros(2, device="spyre").masked_fill(up([1, 1], torch.bool), v),
    "where": lambda v: torch.where(up([1, 1], torch.bool), v, torch.zeros(2, device="spyre")),
    "operand": lambda v: torch.zeros(2, device="spyre") + v,
    "pad": lambda v: F.pad(torch.zeros(0, device="spyre"), (1, 1), value=v),
    "new_full": lambda v: torch.zeros(2, device="spyre").new_full((2,), v),
    "index_fill": lambda v: torch.zeros(2, device="spyre").index_fill(0, up([0, 1], torch.int64), v),
    "scatter": lambda v: torch.zeros(2, device="spyre").scatter(0, up([0, 1], torch.int64), v),
    "clamp": lambda v: torch.zeros(2, device="spyre").clamp(min=v) if v > 0 else torch.zeros(2, device="spyre").clamp(max=v),
    "cast": lambda v: torch.tensor([v, v]).to("spyre", device_layout=_wide()).to(torch.float16).float(),
    "state_dict": lambda v: _loaded(v),
    "arithmetic": lambda v: up([4e9, 4e9]) * (1e9 if v > 0 else -1e9),
}


def _set(x, v):
    x[:] = v
    return x


def _wide():
    from zellige import SpyreTensorLayout

    return SpyreTensorLayout((2,), torch.float32)


def _loaded(v):
    layer = torch.nn.Linear(2, 1, bias=False).to("spyre")
    layer.load_state_dict({"weight": torch.full((1, 2), v)})
    return layer.weight.detach()[0]


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("value", [-INF, INF, 1e10, -3e38])
def test_every_way_in_has_one_rule(way, value):
    x = WAYS_IN[way](value)
    assert x.cpu().tolist() == [INF if value > 0 else -INF] * 2
    # On the card it is a number that survives being added to itself, and anything small.
    assert (x + x).cpu().tolist() == x.cpu().tolist() == (x + x + x + 100.0).cpu().tolist()
    assert not (x * 0).cpu().any()


def test_tests_for_infinities():
    x = up([-INF, INF, float("nan"), 1.0, 1e10])
    assert x.isinf().tolist() == [True, True, False, False, True]
    assert x.isfinite().tolist() == [False, False, False, True, False]
    assert x.isnan().tolist() == [False, False, True, False, False]
    assert (x == INF).tolist() == [False, True, False, False, True]
    assert (x == -INF).tolist() == [True, False, False, False, False]
    f = torch.compile(lambda x: (x.isinf(), x.isfinite(), x == -INF), backend="spyre")
    assert [t.tolist() for t in f(x)] == [[True, True, False, False, True], [False, False, False, True, False], [True, False, False, False, False]]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_softmax_of_masked_rows(compiled, dtype):
    torch.manual_seed(0)
    scores = torch.randn(4, 70).to(dtype)
    mask = torch.zeros(4, 70).masked_fill(torch.arange(70) > torch.tensor([[3], [20], [40], [68]]), -INF).to(dtype)
    f = lambda s, m: ((s + m).softmax(-1), (s + m + m).softmax(-1), s.masked_fill(m == -INF, -INF).softmax(-1), (s + m).log_softmax(-1))
    run = torch.compile(f, backend="spyre") if compiled else f
    for got, want in zip(run(scores.to("spyre"), mask.to("spyre")), f(scores.float(), mask.float())):
        got = got.cpu().float()
        assert not got.isnan().any()
        assert torch.equal(got == 0, want == 0) and torch.equal(got == -INF, want == -INF)
        torch.testing.assert_close(got, want, atol=2e-2, rtol=2e-2)


def test_attention_with_a_mask_of_infinities():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 9, 64, dtype=torch.float16) for _ in range(3))
    mask = torch.full((9, 9), -INF, dtype=torch.float16).triu(1)
    got = F.scaled_dot_product_attention(*(t.to("spyre") for t in (q, k, v)), attn_mask=mask.to("spyre")).cpu()
    want = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=mask.float())
    torch.testing.assert_close(got.float(), want, atol=2e-2, rtol=2e-2)


def test_masks_of_the_largest_float32():
    # As models build them: the lowest number times what is masked, where nothing is masked too.
    keep = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    f = lambda s, keep: (s + (1.0 - keep) * torch.finfo(torch.float32).min).softmax(-1)
    s = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    for run in (f, torch.compile(f, backend="spyre")):
        torch.testing.assert_close(run(s.to("spyre"), keep.to("spyre")).cpu(), f(s, keep), atol=1e-2, rtol=1e-2)


def test_compiled_constants():
    f = lambda x: (torch.where(x > 0, x, -INF), x.masked_fill(x > 0, 1e10), torch.full_like(x, -INF), x + INF, x.clamp(max=INF))
    x = torch.tensor([-1.0, 2.0])
    got = torch.compile(f, backend="spyre")(x.to("spyre"))
    want = [[-INF, 2.0], [-1.0, INF], [-INF, -INF], [INF, INF], [-1.0, 2.0]]
    assert [t.cpu().tolist() for t in got] == want


def test_one_warning_with_the_place():
    code = """
import torch
x = torch.tensor([[0.0, 1.0], [1e10, float('-inf')]])
x.to('spyre')                                    # line 4
x.to('spyre'); torch.full((2,), 1e12, device='spyre')
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "past the 16-bit numbers" in line]
    assert len(told) == 1, done.stderr
    assert told[0].startswith("<string>:4: UserWarning: 2 of 4 elements of a float32 tensor of size [2, 2], the first at [1, 0] (1e+10)"), told
    quiet = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "TORCH_SPYRE_DOWNCAST_WARN": "0"})
    assert "past" not in quiet.stderr


@pytest.mark.filterwarnings("ignore:.*past the 16-bit")
def test_indices_stay_in_range_in_16_bits():
    # Coordinates of 16 bits are coarse here; nothing may be read from outside of the image.
    for size, to in ((200, 333), (640, 1000), (300, 77)):
        image = torch.rand(1, 1, 2, size)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
            aligned = dict(align_corners=False) if mode.startswith("bi") else {}
            out = F.interpolate(image.to("spyre"), size=(2, to), mode=mode, **aligned).cpu()
            assert out.shape[-1] == to and out.isfinite().all() and out.min() >= -0.5 and out.max() <= 1.5
            compiled = torch.compile(lambda t: F.interpolate(t, size=(2, to), mode=mode, **aligned), backend="spyre")
            assert compiled(image.to("spyre")).isfinite().all()
    grid = F.affine_grid(torch.tensor([[[1.5, 0.2, 0.1], [0.1, 1.2, 0.0]]]), [1, 1, 50, 60], align_corners=False)
    assert F.grid_sample(torch.rand(1, 1, 50, 60).to("spyre"), grid.to("spyre"), align_corners=False).isfinite().all()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_reads_back_as_an_infinity_is_one(dtype, compiled):
    x = up([60000.0, -50000.0, 300.0, 1.0], dtype)
    y = x * x.abs()
    tests = lambda y: (y.isinf(), y.isfinite(), torch.isposinf(y), torch.isneginf(y))
    run = torch.compile(tests, backend="spyre") if compiled else tests
    found, back = run(y), y.cpu()
    # The card has room for these products, float16 has not.
    assert back.isinf().tolist() == [dtype == torch.float16, dtype == torch.float16, dtype == torch.float16, False]
    for got, want in zip(found[: 2 if compiled else 4], tests(back)):
        assert torch.equal(got.cpu(), want)
