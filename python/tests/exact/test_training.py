"""Training with float32 kept: losses and weights of the CPU, step by step."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 32, padding_idx=0)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 4)

    def forward(self, x):
        return self.out(self.layers(self.embed(x)).mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(10, 16, 2, batch_first=True, bidirectional=True)
        self.gru, self.out = nn.GRU(32, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.gru(self.lstm(x)[0])[0][:, -1])


def picture():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8),
        nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )


def flat():
    return nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.LayerNorm(32), nn.PReLU(), nn.Linear(32, 4))


MODELS = {
    "flat": (flat, lambda: torch.randn(16, 10)),
    "sequence": (Sequence, lambda: torch.randint(0, 20, (16, 7))),
    "recurrent": (Recurrent, lambda: torch.randn(16, 5, 10)),
    "picture": (picture, lambda: torch.randn(16, 3, 12, 12)),
}


def train(make, data, optimizer, clip=None):
    torch.manual_seed(0)
    model = make()
    device, x, y = copy.deepcopy(model).to("spyre"), data(), torch.randint(0, 4, (16,))
    losses = []
    for m, place in ((model, "cpu"), (device, "spyre")):
        o, seen = optimizer(m.parameters()), []
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(o, 4)
        for _ in range(4):
            o.zero_grad()
            loss = F.cross_entropy(m(x.to(place)), y.to(place), label_smoothing=0.1)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(m.parameters(), clip)
            o.step()
            schedule.step()
            seen.append(loss.item())
        losses.append(seen)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    for (name, p), q in zip(model.named_parameters(), device.parameters()):
        assert torch.allclose(p, q.cpu(), rtol=2e-3, atol=2e-3), f"{name}: {(p - q.cpu()).abs().max().item()}"


@pytest.mark.parametrize("name", MODELS)
def test_models_learn_as_on_the_cpu(name):
    torch.spyre.reset_fallbacks()
    train(*MODELS[name], lambda p: torch.optim.SGD(p, 0.05, momentum=0.9))
    # Gradients of windows are the CPU's.
    allowed = {"convolution", "pool"} if name == "picture" else set()
    left = [op for op in torch.spyre.fallbacks() if not any(a in op for a in allowed)]
    assert not left, left


@pytest.mark.parametrize("optimizer", [
    lambda p: torch.optim.SGD(p, 0.1, nesterov=True, momentum=0.9, weight_decay=0.01), lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True),
    lambda p: torch.optim.Adam(p, 1e-2, foreach=True), lambda p: torch.optim.RMSprop(p, 1e-3, centered=True), torch.optim.Adagrad, torch.optim.Adadelta,
])
def test_optimizers(optimizer):
    train(*MODELS["flat"], optimizer, clip=0.1)


def same(function, *inputs):
    """A function with its gradients on both devices."""
    results = []
    for place in ("cpu", "spyre"):
        leaves = [i.detach().clone().to(place).requires_grad_() for i in inputs]
        out = function(*leaves)
        torch.manual_seed(1)
        out.backward(torch.randn(out.shape).to(place))
        results.append([out.detach().cpu(), *[leaf.grad.cpu() for leaf in leaves]])
    for want, got in zip(*results):
        assert torch.allclose(want, got, rtol=1e-4, atol=1e-4), f"up to {(want - got).abs().max().item()}"


X, P = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.rand(4, 6, generator=torch.Generator().manual_seed(1)) + 0.2


@pytest.mark.parametrize("function", [
    F.gelu, F.silu, F.mish, F.softplus, F.elu, F.selu, F.leaky_relu, F.hardswish, F.hardsigmoid, F.hardtanh, F.glu, F.logsigmoid, F.softshrink,
    F.hardshrink, lambda x: F.layer_norm(x, (6,)), lambda x: F.rms_norm(x, (6,)), lambda x: x.quantile(0.3, dim=1), lambda x: x.unfold(1, 2, 1),
    lambda x: x[x > 0], lambda x: torch.spyre.restickify(x, 0), lambda x: x.softmax(0).logsumexp(1), lambda x: x.sort(1)[0].cumprod(1),
])
def test_gradients_of_one_operator(function):
    same(function, X)


def test_gradients_of_two_operands():
    same(torch.xlogy, P, P)
    same(lambda x, w: F.prelu(x, w[0, :1]), X, P)
    same(lambda x, y: torch.einsum("ij,kj->ik", x, y), X, P)


def test_layouts_keep_the_gradient():
    from zellige import SpyreTensorLayout

    layout = SpyreTensorLayout([4, 6], torch.float32, [1, 0])
    x = X.to("spyre").requires_grad_()
    y = x.to("spyre", device_layout=layout)
    assert y.device_tensor_layout() == layout
    (y * y).sum().backward()
    assert torch.allclose(x.grad.cpu(), 2 * X)
    assert torch.spyre.restickify(x, 0).device_tensor_layout() == torch.spyre.restickify(x.detach(), 0).device_tensor_layout()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again(reentrant):
    x = torch.ones(4, 64, device="spyre", requires_grad=True)
    y = checkpoint(nn.Dropout(0.5), x, use_reentrant=reentrant)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


def test_forward_mode():
    f = lambda a: F.gelu(F.linear(a, a))
    for want, got in zip(torch.func.jvp(f, (X,), (P,)), torch.func.jvp(f, (X.to("spyre"),), (P.to("spyre"),))):
        assert torch.allclose(want, got.cpu(), rtol=1e-4, atol=1e-4)


def test_functions_of_functions():
    x = X.to("spyre")
    f = lambda a: (a.sin() * a).sum()
    assert torch.allclose(torch.func.vmap(torch.func.grad(f))(x).cpu(), torch.func.vmap(torch.func.grad(f))(X), atol=1e-5)
    assert torch.allclose(torch.func.hessian(f)(x[0]).cpu(), torch.func.hessian(f)(X[0]), atol=1e-5)


def test_autocast():
    m, x = nn.Linear(6, 3), X
    d = copy.deepcopy(m).to("spyre")
    with torch.autocast("spyre", dtype=torch.bfloat16):
        y = d(x.to("spyre"))
        assert y.dtype == torch.bfloat16 and y.softmax(-1).dtype == torch.float32 and (y @ y.t()).dtype == torch.bfloat16
    assert d(x.to("spyre")).dtype == torch.float32
    assert torch.allclose(m(x), y.float().cpu(), atol=3e-2)
    scaler, o = torch.amp.GradScaler("spyre"), torch.optim.SGD(d.parameters(), 0.1)
    before = d.weight.detach().cpu()
    with torch.autocast("spyre", dtype=torch.float16):
        loss = d(x.to("spyre")).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(o)
    scaler.update()
    m(x).pow(2).mean().backward()
    assert torch.allclose(before - 0.1 * m.weight.grad, d.weight.detach().cpu(), atol=1e-2)
