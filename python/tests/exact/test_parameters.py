"""Modules that move keep their parameters, as with `.cuda()`."""

import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F


def test_parameters_stay_themselves():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    parameters = list(model.parameters())
    assert all(a is b for a, b in zip(parameters, model.to("spyre").parameters()))
    assert all(p.device.type == "spyre" and p.is_leaf and p.requires_grad and type(p) is nn.Parameter for p in parameters)
    assert all(a is b for a, b in zip(parameters, model.cpu().parameters()))
    assert all(p.device.type == "cpu" for p in parameters)
    assert all(a is b for a, b in zip(parameters, model.to("spyre:1").parameters()))
    assert parameters[0].device == torch.device("spyre:1")


def test_tied_weights_stay_tied():
    model = nn.ModuleDict({"embedding": nn.Embedding(8, 4), "head": nn.Linear(4, 8, bias=False)})
    model["head"].weight = model["embedding"].weight
    model.to("spyre")
    assert model["head"].weight is model["embedding"].weight and len(list(model.parameters())) == 1
    twin = copy.deepcopy(model)
    assert twin["head"].weight is twin["embedding"].weight


def test_an_optimizer_that_was_made_before():
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    twin, x = copy.deepcopy(model), torch.randn(3, 4)
    ours, theirs = torch.optim.Adam(model.parameters(), 0.1), torch.optim.Adam(twin.parameters(), 0.1)
    model.to("spyre")
    for _ in range(3):
        for m, optimizer, given in ((model, ours, x.to("spyre")), (twin, theirs, x)):
            optimizer.zero_grad()
            m(given).pow(2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(model.weight.cpu(), twin.weight, rtol=1e-5, atol=1e-5)


def test_gradients_and_hooks_move_along():
    model, said = nn.Linear(3, 2), []
    model.weight.register_hook(lambda grad: said.append("hook"))
    model.weight.register_post_accumulate_grad_hook(lambda p: said.append("after"))
    model(torch.ones(1, 3)).sum().backward()
    gradient = model.weight.grad
    model.to("spyre")
    assert model.weight.grad is gradient and gradient.device.type == "spyre"
    model(torch.ones(1, 3, device="spyre")).sum().backward()
    assert model.weight.grad.cpu().tolist() == [[2.0] * 3] * 2 and said == ["hook", "after"] * 2


def test_data_may_be_on_another_device():
    p = nn.Parameter(torch.arange(3.0))
    q = p
    p.data = p.data.to("spyre")
    assert q.device.type == "spyre" and q.requires_grad and q.tolist() == [0, 1, 2]
    p.data = p.data.cpu()
    assert q.device.type == "cpu" and q.tolist() == [0, 1, 2]
    x = torch.ones(2)
    x.data = torch.zeros(3, device="spyre")
    assert x.shape == (3,) and x.device.type == "spyre" and not x.requires_grad
    y = (nn.Parameter(torch.ones(2)) * 2)
    with pytest.raises(RuntimeError, match="computed with gradients"):
        y.data = torch.zeros(2, device="spyre")
    with pytest.raises(TypeError):
        y.data = 3


def test_lazy_modules():
    x = torch.randn(2, 3, 8, 8)
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(5)).to("spyre")
    optimizer_sees = list(model.parameters())
    assert model(x.to("spyre")).shape == (2, 5)
    assert all(a is b for a, b in zip(optimizer_sees, model.parameters()))
    assert {p.device.type for p in model.parameters()} == {"spyre"}
    loaded = nn.LazyLinear(5).to("spyre")
    plain = nn.Linear(3, 5)
    loaded.load_state_dict(plain.state_dict())
    torch.testing.assert_close(loaded(x[0, 0, :1, :3].to("spyre")).cpu(), plain(x[0, 0, :1, :3]))


def test_gpt2_has_as_many_parameters():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=32, vocab_size=64, n_positions=32, bos_token_id=1, eos_token_id=2)
    model = transformers.GPT2LMHeadModel(config)
    count = len(list(model.parameters()))
    model.to("spyre")
    assert len(list(model.parameters())) == count and model.lm_head.weight is model.transformer.wte.weight


def test_a_compiled_module_moves():
    model = torch.compile(nn.Linear(4, 4), backend="spyre")
    weight = model.weight
    model.to("spyre")
    x = torch.randn(2, 4)
    got = model(x.to("spyre")).detach().cpu()
    assert model.weight is weight
    torch.testing.assert_close(got, F.linear(x, weight.detach().cpu(), model.bias.detach().cpu()))
