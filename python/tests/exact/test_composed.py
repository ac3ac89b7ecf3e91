"""Operators that are written by others of the card: the CPU's results, and nothing on the CPU."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F


@pytest.fixture(autouse=True)
def nothing_on_the_cpu():
    torch._dynamo.reset()
    torch.spyre.reset_fallbacks()
    yield
    assert not torch.spyre.fallbacks()


def check(function, *given, compiled=True, tolerance=1e-4):
    """Results and gradients, eager and compiled."""
    want = [t.clone().requires_grad_(t.is_floating_point()) for t in given]
    out = function(*want)
    flat = out if isinstance(out, tuple) else (out,)
    cotangents = [torch.randn_like(o) if o.is_floating_point() else None for o in flat]
    differentiable = [(o, c) for o, c in zip(flat, cotangents) if o.requires_grad]
    if differentiable:
        torch.autograd.backward(*zip(*differentiable))
    for f in [function] + [torch.compile(function, backend="spyre")] * compiled:
        got = [t.detach().to("spyre").requires_grad_(t.is_floating_point()) for t in given]
        made = f(*got)
        made = made if isinstance(made, tuple) else (made,)
        if differentiable:
            torch.autograd.backward(*zip(*[(m, c.to("spyre")) for m, o, c in zip(made, flat, cotangents) if o.requires_grad]))
        for a, b in zip(flat, made):
            torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=tolerance, atol=tolerance)
        for a, b in zip(want, got):
            if a.grad is not None:
                torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=tolerance, atol=tolerance)


def test_convolutions_and_their_gradients():
    random.seed(0)
    torch.manual_seed(0)
    choices = list(itertools.product((1, 2), (1, 2, 3), (0, 1), (1, 2), (1, 2), (False, True), (False, True)))
    for i, (rank, stride, padding, dilation, groups, transposed, bias) in enumerate(random.sample(choices, 40)):
        kernel = random.choice((1, 2, 3))
        inputs, outputs = 4, 6
        size = [random.choice((7, 8, 9)) for _ in range(rank)]
        weight = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
        given = [torch.randn(2, inputs, *size), torch.randn(*weight, *[kernel] * rank)] + [torch.randn(outputs)] * bias
        if transposed:
            extra = random.choice(range(max(stride, dilation)))
            op = F.conv_transpose1d if rank == 1 else F.conv_transpose2d
            function = lambda x, w, b=None: op(x, w, b, stride, padding, extra, groups, dilation)
        else:
            op = F.conv1d if rank == 1 else F.conv2d
            function = lambda x, w, b=None: op(x, w, b, stride, padding, dilation, groups)
        torch._dynamo.reset()
        check(function, *given, compiled=i % 5 == 0)


@pytest.mark.parametrize("channels, groups", [(8, 8), (6, 3)])
def test_depthwise_gradients(channels, groups):
    torch.manual_seed(0)
    check(lambda x, w: F.conv2d(x, w, None, 2, 1, 1, groups), torch.randn(3, channels, 9, 8), torch.randn(2 * channels, channels // groups, 3, 3))


def test_pools_with_places():
    random.seed(0)
    torch.manual_seed(0)
    for i in range(30):
        kernel = [random.choice((1, 2, 3)), random.choice((1, 2, 3))]
        padding, dilation = [random.randint(0, k // 2) for k in kernel], random.choice((1, 2))
        stride, ceil = random.choice((None, 1, 2, 3)), random.random() < 0.5
        x = torch.randperm(2 * 3 * 9 * 8).reshape(2, 3, 9, 8).float()
        x = x if i % 3 else x[0]
        options = dict(kernel_size=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil)
        try:
            F.max_pool2d(x, **options)
        except RuntimeError:
            continue
        torch._dynamo.reset()
        check(lambda x: F.max_pool2d(x, return_indices=True, **options), x, compiled=i % 10 == 0)
    # Equal elements, elements that are not numbers, and infinities.
    for x in (torch.zeros(1, 1, 4, 4), torch.tensor([[[[1.0, float("nan")], [float("inf"), 2.0]]]]), torch.full((1, 1, 2, 2), float("-inf"))):
        a, b = F.max_pool2d(x, 2, return_indices=True), F.max_pool2d(x.to("spyre"), 2, return_indices=True)
        torch.testing.assert_close(b[0].cpu(), a[0], equal_nan=True)
        assert torch.equal(b[1].cpu(), a[1])


@pytest.mark.parametrize("shape", [(2, 8, 6, 5), (2, 8, 7), (3, 8)])
@pytest.mark.parametrize("affine", [False, True])
def test_group_norms(shape, affine):
    torch.manual_seed(0)
    given = [torch.randn(shape)] + [torch.randn(8), torch.randn(8)] * affine
    # Two elements that are near each other have a large gradient.
    check(lambda x, *rest: F.group_norm(x, 4, *rest), *given, tolerance=1e-4 if len(shape) > 2 else 2e-3)


def test_which_elements_there_are():
    torch.manual_seed(0)
    tensors = [torch.randn(5, 7) > 0, torch.randint(-1, 2, (3, 4, 5)), torch.zeros(4), torch.tensor(3.0), torch.tensor(0), torch.zeros(0, 3), torch.ones(70) > 0]
    for x in tensors:
        assert torch.equal(x.to("spyre").nonzero().cpu(), x.nonzero())
        mask = x != 0
        assert torch.equal(x.to("spyre")[mask.to("spyre")].cpu(), x[mask])
        assert torch.equal(x.to("spyre").masked_select(mask.to("spyre")).cpu(), x.masked_select(mask))
    for mask in (torch.rand(5, 7) > 0.5, torch.rand(7) > 0.5, torch.zeros(5, 7) > 0):
        x, source = torch.randn(5, 7), torch.randn(40)
        assert torch.equal(x.to("spyre").masked_scatter(mask.to("spyre"), source.to("spyre")).cpu(), x.masked_scatter(mask, source))
    with pytest.raises(RuntimeError, match="number of ones"):
        x.to("spyre").masked_scatter(torch.ones(5, 7, device="spyre") > 0, source[:3].to("spyre"))
    x, row = torch.randn(4, 6), torch.tensor([True, False, True, True, False, True])
    assert torch.equal(x.to("spyre").masked_select(row.to("spyre")).cpu(), x.masked_select(row))
    y = x.to("spyre").requires_grad_()
    y.masked_select(row.to("spyre")).sum().backward()
    assert torch.equal(y.grad.cpu(), row.float().expand(4, 6))


def test_counts_in_bins():
    torch.manual_seed(0)
    x = torch.randn(500)
    for arguments in ((10,), (7, -1, 1), (4, 0, 3), (1, -5, 5), (100,)):
        want = torch.histc(x, *arguments)
        for function in (torch.histc, torch.compile(torch.histc, backend="spyre")):
            assert torch.equal(function(x.to("spyre"), *arguments).cpu(), want), arguments
    assert torch.equal(torch.histc(torch.ones(5, device="spyre"), 4).cpu(), torch.histc(torch.ones(5), 4))
    with pytest.raises(RuntimeError, match="max must be larger"):
        torch.histc(x.to("spyre"), 3, 2, 1)


def test_draws_by_weight():
    torch.spyre.manual_seed(0)
    weights = torch.tensor([[0.0, 1.0, 3.0, 0.0], [4.0, 0.0, 2.0, 2.0]])
    for replacement, count in ((True, 4000), (False, 2)):
        drawn = torch.multinomial(weights.to("spyre"), count, replacement).cpu()
        assert drawn.dtype == torch.int64 and drawn.shape == (2, count)
        assert (weights.gather(1, drawn) > 0).all(), "never one without weight"
        if replacement:
            part = torch.stack([(drawn == k).float().mean(1) for k in range(4)], 1)
            assert (part - weights / weights.sum(1, keepdim=True)).abs().max() < 0.05
        else:
            assert all(len(set(row)) == count for row in drawn.tolist())
    ones = torch.stack([torch.multinomial(weights[1].to("spyre"), 1) for _ in range(400)]).flatten().cpu()
    assert abs((ones == 0).float().mean().item() - 0.5) < 0.1
    for bad, count, words in (([0.0, 0.0], 1, "sum of prob"), ([-1.0, 2.0], 1, "< 0"), ([1.0, 0.0], 2, "not enough"), ([1.0, 2.0], 3, "n_sample >")):
        with pytest.raises(RuntimeError, match=words):
            torch.multinomial(torch.tensor(bad).to("spyre"), count)


def test_one_program_of_a_network():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.GroupNorm(2, 8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.ConvTranspose2d(8, 4, 2, stride=2)
    )
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        want = model(x)
        got = torch.compile(model.to("spyre"), backend="spyre")(x.to("spyre"))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
    report = torch.spyre.last_report()
    assert len(report.current) == 1 and not report.fallbacks, str(report)
