"""Operators that PyTorch defines by others have gradients on the device too."""

import pytest
import torch
from zellige.spyre import dispatcher

HAS = torch._C._dispatch_has_kernel_for_dispatch_key


def composites():
    return sorted(name for name in dispatcher.registered() if HAS("aten::" + name, "CompositeImplicitAutograd"))


def test_every_composite_has_a_kernel_for_gradients():
    assert "square" in composites() and "linear" in composites()
    missing = [name for name in composites() if not HAS("aten::" + name, "AutogradPrivateUse1")]
    assert not missing


CASES = {
    "square": lambda x: torch.square(x).sum(),
    "square_": lambda x: (x * 1).square_().sum(),
    "the gradient of silu": lambda x: torch.autograd.grad(torch.nn.functional.silu(x).sum(), x, create_graph=True)[0].sum(),
    "the gradient of mish": lambda x: torch.autograd.grad(torch.nn.functional.mish(x).sum(), x, create_graph=True)[0].sum(),
    "quantile": lambda x: x.quantile(0.3),
    "linear": lambda x: torch.nn.functional.linear(x, x.detach()).sum(),
    "matmul": lambda x: (x @ x.t()).sum(),
    "layer_norm": lambda x: (torch.nn.functional.layer_norm(x, (4,)) * torch.arange(4.0, device=x.device)).sum(),
    "rms_norm": lambda x: torch.nn.functional.rms_norm(x, (4,)).sum(),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x).sum(),
    "max_pool2d": lambda x: torch.nn.functional.max_pool2d(x[None], 2).sum(),
    "pinverse": lambda x: torch.linalg.pinv(x).sum(),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    torch.manual_seed(0)
    given = torch.randn(3, 4)
    want, got = given.clone().requires_grad_(), given.to("spyre").requires_grad_()
    CASES[name](want).backward()
    CASES[name](got).backward()
    torch.testing.assert_close(got.grad.cpu(), want.grad, rtol=1e-4, atol=1e-5)


def test_compiled_gradients_of_square():
    x = torch.tensor([1.0, -2.0, 3.0], device="spyre", requires_grad=True)
    torch.compile(lambda x: (x.square() * x).sum(), backend="spyre")(x).backward()
    torch.testing.assert_close(x.grad.cpu(), torch.tensor([3.0, 12.0, 27.0]))
    with torch.no_grad():
        torch.compile(lambda x: x.square() + 1, backend="spyre")(x)
    assert "square" in [s["op"] for s in torch.spyre.last_report().steps]
