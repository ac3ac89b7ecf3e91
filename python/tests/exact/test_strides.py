"""Results lie in memory as PyTorch's own do."""

import random

import torch
import torch.nn.functional as F

POINTWISE = {
    "add": lambda a, b: a + b, "mul by a number": lambda a, b: a * 2, "relu": lambda a, b: a.relu(), "neg": lambda a, b: -a,
    "compare": lambda a, b: a > b, "where": lambda a, b: torch.where(a > 0, a, b), "lerp": lambda a, b: torch.lerp(a, b, 0.5),
    "clamp": lambda a, b: a.clamp(0, 1), "elu": lambda a, b: F.elu(a), "rsub": lambda a, b: torch.rsub(a, 1),
    "clone": lambda a, b: a.clone(), "to float16": lambda a, b: a.half(), "to int32": lambda a, b: a.int(),
    "masked fill": lambda a, b: a.masked_fill(b > 0, 1.0), "addcmul": lambda a, b: torch.addcmul(a, a, b),
    "zeros like": lambda a, b: torch.zeros_like(a), "full like": lambda a, b: torch.full_like(b, 2),
    "contiguous": lambda a, b: a.contiguous(), "softmax": lambda a, b: a.softmax(-1), "sum": lambda a, b: a.sum(0),
}
KEPT = {
    "flip": lambda a: a.flip(0), "sort": lambda a: a.sort(0)[0], "sorted indices": lambda a: a.sort(0)[1].float(),
    "rand like": lambda a: torch.rand_like(a) * 0, "dropout": lambda a: F.dropout(a, 0.0),
}


def tensor(shape):
    """A tensor in some order of memory, with gaps here and there."""
    order = random.sample(range(len(shape)), len(shape))
    steps = [random.choice((1, 1, 2)) for _ in shape]
    whole = torch.randn([shape[d] * s for d, s in zip(order, steps)])
    part = whole[tuple(slice(0, None, s) for s in steps)]
    return whole, part.permute([order.index(d) for d in range(len(shape))])


def on_device(whole, view):
    return whole.to("spyre").as_strided(view.shape, view.stride(), view.storage_offset())


def test_pointwise_operators_keep_the_order_of_memory():
    random.seed(0)
    torch.manual_seed(0)
    for _ in range(60):
        shape = [random.choice((1, 2, 3, 5)) for _ in range(random.choice((1, 2, 3, 4)))]
        pairs = [tensor(shape), tensor([n if random.random() < 0.7 else 1 for n in shape])]
        (a, b), (x, y) = [p[1] for p in pairs], [on_device(*p) for p in pairs]
        for name, function in POINTWISE.items():
            want, got = function(a, b), function(x, y)
            assert want.stride() == got.stride(), (name, shape, a.stride(), b.stride())
            near = 1e-5 if want.dtype == torch.float32 else 2e-3
            torch.testing.assert_close(got.cpu(), want, rtol=near, atol=near)


def test_other_operators_that_keep_it():
    random.seed(1)
    for _ in range(40):
        shape = [random.choice((2, 3, 5)) for _ in range(random.choice((1, 2, 3, 4)))]
        whole, a = tensor(shape)
        x = on_device(whole, a)
        for name, function in KEPT.items():
            want, got = function(a), function(x)
            assert want.stride() == got.stride(), (name, shape, a.stride())
            torch.testing.assert_close(got.cpu(), want)


def test_channels_last():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = x.to("spyre")
    assert y.stride() == x.stride()
    for function in (lambda t: t + 1, lambda t: torch.cat([t, t], 1), lambda t: t * t.mean((2, 3), keepdim=True), lambda t: t.half()):
        assert function(y).stride() == function(x).stride()
        torch.testing.assert_close(function(y).cpu(), function(x), rtol=1e-3, atol=1e-3)


def test_a_view_of_a_transposed_result():
    x = torch.randn(3, 4)
    assert torch.equal(x.to("spyre").t().relu().t().view(-1).cpu(), x.relu().view(-1))


def test_strides_that_are_asked_for():
    for size, stride in [((2, 3), (1, 2)), ((2, 3), (6, 2)), ((3, 2, 4), (1, 12, 3)), ((1, 3), (7, 1)), ((2, 0), (5, 1)), ((2, 3), (5, 2)), ((), ())]:
        want, got = torch.empty_strided(size, stride), torch.empty_strided(size, stride, device="spyre")
        assert want.stride() == got.stride()
        values = torch.randn(size)
        got.copy_(values)
        assert torch.equal(got.cpu(), values)
