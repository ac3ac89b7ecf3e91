"""What PyTorch's own tests of a device reach beside operators: it works, or says what to do."""

import pytest
import torch


@pytest.mark.parametrize("grad", [True, False])
def test_trace(grad):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("spyre")
    x = torch.randn(3, 4, device="spyre")
    with torch.set_grad_enabled(grad):
        traced = torch.jit.trace(model, x)
        assert torch.allclose(traced(x).cpu(), model(x).cpu())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_pools_of_integers(dtype):
    x = torch.arange(32).reshape(1, 2, 4, 4).to(dtype)
    want = torch.nn.functional.max_pool2d(x, 2)
    assert torch.equal(torch.nn.functional.max_pool2d(x.to("spyre"), 2).cpu(), want)


@pytest.mark.parametrize("rank, norm", [(1, torch.nn.BatchNorm1d), (2, torch.nn.BatchNorm2d), (3, torch.nn.BatchNorm3d)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_nothing(rank, norm, training):
    module = norm(3).to("spyre").train(training)
    x = torch.empty(0, 3, *[2] * rank, device="spyre", requires_grad=True)
    out = module(x)
    out.sum().backward()
    assert out.shape == x.shape and x.grad.shape == x.shape
    assert module.weight.grad.tolist() == [0, 0, 0]


def test_one_number_into_overlapping_elements():
    for view in (lambda t: t.expand(4, 3, 70), lambda t: t.unfold(1, 3, 1), lambda t: t.as_strided((3, 4, 2), (2, 1, 1))):
        for write in (lambda t: t.zero_(), lambda t: t.fill_(2.5)):
            base = torch.randn(3, 70)
            card = base.clone().to("spyre")
            write(view(base))
            write(view(card))
            assert torch.equal(card.cpu(), base)
