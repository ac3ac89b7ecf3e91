"""int64 on the device is exact modulo 2^64, as on the CPU, one operator at a time and compiled."""

import pytest
import torch
import torch.nn.functional as F

BIG = [0, 1, -1, 2, 7, -7, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, -(2**53) - 1, 2**62 + 3, 2**63 - 1, -(2**63), 123456789012345]
A = torch.tensor(BIG).reshape(4, 4)
B = torch.tensor(BIG[::-1]).reshape(4, 4)
SMALL = torch.tensor([[3, -2, 5, 1], [0, 7, 63, 2], [1, 1, 4, 9], [31, 33, 62, 40]])
INDEX = torch.tensor([[0, 3, 1, 2], [2, 2, 0, 0], [1, 0, 3, 3], [3, 1, 2, 0]])


def nonzero(x):
    return torch.where(x == 0, 3, x)


CASES = {
    "add": lambda a, b, i: a + b,
    "sub": lambda a, b, i: a - b,
    "mul": lambda a, b, i: a * b,
    "add_alpha": lambda a, b, i: torch.add(a, b, alpha=2**40 + 1),
    "add_number": lambda a, b, i: a + (2**53 + 1),
    "sub_number": lambda a, b, i: 2**62 - a,
    "mul_number": lambda a, b, i: a * (2**33 + 1),
    "floor_divide": lambda a, b, i: a // 7,
    "floor_divide_tensor": lambda a, b, i: a // nonzero(b),
    "trunc_divide": lambda a, b, i: torch.div(a, nonzero(b), rounding_mode="trunc"),
    "remainder": lambda a, b, i: a % (2**33 + 1),
    "remainder_tensor": lambda a, b, i: a % nonzero(b),
    "fmod": lambda a, b, i: torch.fmod(a, 2**33 + 1),
    "left_shift": lambda a, b, i: a << (i + 30),
    "right_shift": lambda a, b, i: a >> (i * 21),
    "and": lambda a, b, i: a & b,
    "or": lambda a, b, i: a | (2**40),
    "xor": lambda a, b, i: a ^ b,
    "not": lambda a, b, i: ~a,
    "eq": lambda a, b, i: a == b,
    "eq_number": lambda a, b, i: a == 2**53 + 1,
    "ne": lambda a, b, i: a != b,
    "lt": lambda a, b, i: a < b,
    "le": lambda a, b, i: a <= 2**53,
    "gt": lambda a, b, i: a > b,
    "ge": lambda a, b, i: a >= b,
    "clamp": lambda a, b, i: a.clamp(-(2**53) - 1, 2**53 + 1),
    "clamp_tensor": lambda a, b, i: torch.clamp(a, torch.minimum(a, b), b),
    "maximum": lambda a, b, i: torch.maximum(a, b),
    "minimum": lambda a, b, i: torch.minimum(a, b),
    "sum": lambda a, b, i: a.sum(),
    "sum_dim": lambda a, b, i: a.sum(0),
    "prod": lambda a, b, i: nonzero(a).prod(1),
    "cumsum": lambda a, b, i: a.cumsum(1),
    "cumprod": lambda a, b, i: nonzero(a).cumprod(0),
    "cummax": lambda a, b, i: a.cummax(1)[0],
    "max": lambda a, b, i: a.max(),
    "min_dim": lambda a, b, i: a.min(1)[0],
    "min_index": lambda a, b, i: a.min(0)[1],
    "amax": lambda a, b, i: a.amax(0),
    "argmax": lambda a, b, i: a.argmax(),
    "argmin": lambda a, b, i: a.argmin(1),
    "sort": lambda a, b, i: a.sort(1, descending=True)[0],
    "argsort": lambda a, b, i: a.argsort(0),
    "topk": lambda a, b, i: a.topk(2, 1)[0],
    "any": lambda a, b, i: (a * 2**32).any(1),
    "all": lambda a, b, i: a.all(0),
    "count": lambda a, b, i: a.count_nonzero(),
    "gather": lambda a, b, i: a.gather(1, i),
    "scatter": lambda a, b, i: a.scatter(1, i.sort(1)[1], b),
    "scatter_value": lambda a, b, i: a.scatter(1, i, 2**60 + 1),
    "scatter_add": lambda a, b, i: a.scatter_add(0, i, b),
    "index_add": lambda a, b, i: a.index_add(0, i[0], b),
    "index_copy": lambda a, b, i: a.index_copy(1, i[0], b),
    "index": lambda a, b, i: a[i[0], i[1]],
    "index_put": lambda a, b, i: a.index_put((i[0], i[1]), b[0], accumulate=True),
    "index_select": lambda a, b, i: a.index_select(1, i[0]),
    "index_fill": lambda a, b, i: a.index_fill(0, i[0, :2], 2**61 + 1),
    "masked_fill": lambda a, b, i: a.masked_fill(i == 0, -(2**60) - 1),
    "where": lambda a, b, i: torch.where(i > 1, a, b),
    "where_number": lambda a, b, i: torch.where(i > 1, a, 2**60 + 1),
    "cat": lambda a, b, i: torch.cat([a, b], 1),
    "stack": lambda a, b, i: torch.stack([a, b]),
    "pad": lambda a, b, i: F.pad(a, (1, 2), value=2**60 + 1),
    "abs": lambda a, b, i: a.abs(),
    "neg": lambda a, b, i: -a,
    "sign": lambda a, b, i: a.sign(),
    "square": lambda a, b, i: a.square(),
    "pow": lambda a, b, i: a**3,
    "pow_tensor": lambda a, b, i: a ** (i + 2),
    "number_pow": lambda a, b, i: 3 ** (i * 13),
    "tril": lambda a, b, i: a.tril(),
    "flip": lambda a, b, i: a.flip(1),
    "roll": lambda a, b, i: a.roll(1, 0),
    "transpose": lambda a, b, i: a.t() + b,
    "matmul": lambda a, b, i: a @ b,
    "addmm": lambda a, b, i: torch.addmm(a, b, i, beta=3, alpha=2),
    "addcmul": lambda a, b, i: torch.addcmul(a, b, i, value=2**40),
    "floor": lambda a, b, i: a.floor(),
    "logical_and": lambda a, b, i: (a * 2**32).logical_and(b),
    "isinf": lambda a, b, i: a.isinf(),
    "full_like": lambda a, b, i: torch.full_like(a, 2**60 + 1),
    "arange": lambda a, b, i: torch.arange(2**60, 2**60 + 5, device=a.device) + a[0, 0],
    "arange_step": lambda a, b, i: torch.arange(2**62, 2**62 - 9, -2, device=a.device) + a[0, 0],
    "one_hot": lambda a, b, i: (i.unsqueeze(-1) == torch.arange(4, device=i.device)).long(),
    "repeat": lambda a, b, i: a.repeat(2, 1),
    "median": lambda a, b, i: a.median(1)[0],
}
CASES |= {
    f"to_{str(dtype)[6:]}": (lambda a, b, i, dtype=dtype: a.to(dtype))
    for dtype in (torch.bool, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32)
}


@pytest.mark.parametrize("name", CASES)
def test_eager_as_on_the_cpu(name):
    f, (a, b, i) = CASES[name], (A, B, INDEX)
    want, got = f(a, b, i), f(a.to("spyre"), b.to("spyre"), i.to("spyre"))
    assert got.dtype == want.dtype and got.device.type == "spyre"
    assert torch.equal(got.cpu(), want), (got.cpu(), want)


def test_compiled_as_on_the_cpu():
    # One graph for all: a compilation each would take minutes.
    names = [n for n in CASES if n not in ("index_put",)]

    def all_of(a, b, i):
        return [CASES[n](a, b, i) for n in names]

    want = all_of(A, B, INDEX)
    got = torch.compile(all_of, backend="spyre")(A.to("spyre"), B.to("spyre"), INDEX.to("spyre"))
    for name, w, g in zip(names, want, got):
        assert g.dtype == w.dtype and torch.equal(g.cpu(), w), (name, g.cpu(), w)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_casts_from_every_dtype(dtype):
    x = torch.tensor([0.0, 1.0, 100.0, 3.5, 120.0]).to(dtype)
    assert torch.equal(x.to("spyre").long().cpu(), x.long())
    if dtype.is_floating_point:
        wide = torch.tensor([2.0**40, -(2.0**40), 3e9]).to(torch.float32)
        assert torch.equal(wide.to("spyre").long().cpu(), wide.long())


def test_int64_to_a_float_rounds_once():
    x = torch.tensor([2**24 + 1, 2**53 + 1, 2**25 + 3, 2**60 + 2**36 + 1, 2**54 + 2**30 + 1])
    assert torch.equal(x.to("spyre").float().cpu(), x.float())
    assert torch.equal((x.to("spyre") / 3).cpu(), x / 3)


def test_sums_of_narrow_integers_are_wide():
    x = torch.full((1000,), 2**31 - 1, dtype=torch.int32)
    assert x.to("spyre").sum().item() == x.sum().item() == 1000 * (2**31 - 1)
    assert torch.equal(x.to("spyre").cumsum(0).cpu(), x.cumsum(0))
    assert torch.arange(100000, device="spyre").sum().item() == 4999950000


def test_storage_is_64_bits_wide():
    x = torch.arange(40, device="spyre")
    layout = x.device_tensor_layout()
    assert "IEEE_INT64" in str(layout) and list(layout.device_size)[-1] == 16


def test_single_numbers():
    x = torch.zeros(3, dtype=torch.int64, device="spyre")
    assert x.fill_(2**60 + 1).tolist() == [2**60 + 1] * 3
    assert torch.full((2,), -(2**63), device="spyre").tolist() == [-(2**63)] * 2
    assert (x[0] + 2**61).item() == 2**61 + 2**60 + 1
    assert torch.tensor(2**62 + 1, device="spyre").item() == 2**62 + 1
    x[1] = 2**53 + 1
    assert x[1].item() == 2**53 + 1
    assert (torch.ones(2, dtype=torch.bool, device="spyre") + 2**40).tolist() == [2**40 + 1] * 2
    assert torch.arange(2**63 - 3, 2**63 - 1, device="spyre").tolist() == [2**63 - 3, 2**63 - 2]


def test_an_index_past_32_bits_is_out_of_range():
    # Its lowest 32 bits would be a row.
    weight = torch.rand(4, 8, dtype=torch.float16).to("spyre")
    with pytest.raises((RuntimeError, IndexError), match="out of range"):
        F.embedding(torch.tensor([2**32]).to("spyre"), weight)
    assert torch.equal(F.embedding(INDEX.to("spyre"), weight).cpu(), F.embedding(INDEX, weight.cpu()))


def test_random_integers_past_32_bits():
    torch.manual_seed(0)
    x = torch.randint(2**40, 2**40 + 10, (500,), device="spyre")
    assert set(x.tolist()) == set(range(2**40, 2**40 + 10))
    wide = torch.randint(-(2**62), 2**62, (500,), device="spyre").cpu()
    assert wide.min() < -(2**61) and wide.max() > 2**61 and (wide & 0xFFFFFFFF).unique().numel() > 490
    assert torch.empty(100, dtype=torch.int64, device="spyre").random_().max().item() > 2**40


def test_a_layout_of_32_bits_refuses_what_it_does_not_hold():
    from zellige import SpyreTensorLayout

    narrow = SpyreTensorLayout((3,), torch.int64)
    x = torch.tensor([1, 2, 2**31 - 1])
    assert torch.equal(x.to("spyre", device_layout=narrow).cpu(), x)
    with pytest.raises(RuntimeError, match=r"the integer 4294967296 at \[2\]"):
        torch.tensor([1, 2, 2**32]).to("spyre", device_layout=narrow)
    with pytest.raises(RuntimeError, match=r"the integer 4294967296 at \[2\]"):
        torch.tensor([1, 2, 2**32]).to("spyre").to("spyre", device_layout=narrow)


@pytest.mark.parametrize("write", [
    lambda b: b.__setitem__(0, 2),
    lambda b: b.fill_(2),
    lambda b: b.fill_(0.5),
    lambda b: b.masked_fill_(b.logical_not(), 2),
    lambda b: b.index_fill_(0, torch.tensor([1], device=b.device), 2),
    lambda b: b.index_put_((torch.tensor([1], device=b.device),), torch.tensor(True, device=b.device)),
    lambda b: b.scatter_(0, torch.tensor([1], device=b.device), 2),
    lambda b: b.copy_(torch.full_like(b, 2)),
    lambda b: b.copy_(b.new_full((3,), 2)),
    lambda b: b.copy_(torch.full((3,), 2, dtype=torch.bool, device=b.device)),
    lambda b: b.copy_(torch.where(b, b, True)),
    lambda b: b.copy_(torch.tensor(2, device=b.device).to(torch.bool)),
    lambda b: b.copy_(torch.tensor([2.0, 0.0, 0.25], device=b.device).to(torch.bool)),
    lambda b: b.copy_(F.pad(b[:1], (0, 2), value=2)),
    lambda b: b.copy_(b.int().clamp(2, 3).bool()),
])
def test_a_truth_value_is_0_or_1(write):
    found = []
    for device in ("cpu", "spyre"):
        b = torch.zeros(3, dtype=torch.bool, device=device)
        write(b)
        found.append((b.tolist(), b.to(torch.int32).tolist(), b.sum().item()))
    assert found[0] == found[1]


def test_booleans_compiled():
    def f(b, x):
        return b.masked_fill(x > 1, 2).int(), torch.full_like(b, 2).long(), x.to(torch.bool).int().sum(), F.pad(b, (0, 1), value=2).long()

    b, x = torch.tensor([False, True, False]), torch.tensor([0, 2**32, 5])
    got = torch.compile(f, backend="spyre")(b.to("spyre"), x.to("spyre"))
    for g, w in zip(got, f(b, x)):
        assert torch.equal(g.cpu(), w), (g.cpu(), w)


def test_floats_without_a_fraction_are_floats():
    x = torch.arange(6)
    for function in (lambda t: t + 0.0, lambda t: t * 2.0, lambda t: t - 1.0, lambda t: 2.0 / (t + 1), lambda t: t.clamp(min=1.0)):
        for run in (function, torch.compile(function, backend="spyre")):
            got = run(x.to("spyre"))
            assert got.dtype == function(x).dtype and torch.equal(got.cpu(), function(x))
    assert torch.equal((x > 2).to("spyre").square().cpu(), (x > 2).square())
