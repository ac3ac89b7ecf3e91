"""Compiled programs read the weights that are there: by whatever way a parameter is written, the next call sees it."""

import copy

import pytest
import torch
from torch import nn


def double_by_data(p):
    p.data.mul_(2)


def assign_by_index(p):
    p.data[...] = p.data * 2


def write_by_out(p):
    torch.mul(p.data, 2, out=p.data)


def write_by_foreach(p):
    torch._foreach_mul_([p.data], 2)


def write_by_lerp(p):
    p.data.lerp_(torch.ones_like(p.data), 0.25)


def copy_into_data(p):
    p.data.copy_(p.data * 2)


def copy_from_host(p):
    p.data.copy_(p.data.cpu() * 2)


def write_by_detach(p):
    p.detach().mul_(2)


def write_a_row(p):
    p.data[0].fill_(3)


def write_a_view(p):
    p.data.view(-1)[1:3].zero_()


def write_under_a_preserved_version(p):
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(p):
        p.mul_(2)


def write_without_gradients(p):
    with torch.no_grad():
        p.mul_(2)


def write_by_mask(p):
    p.data.masked_fill_(p.data > 0, 0.5)


def scatter_into_data(p):
    p.data.view(-1).scatter_(0, torch.tensor([0, 2], device=p.device), torch.tensor([5.0, 6.0], device=p.device))


def put_by_index(p):
    p.data.view(-1)[torch.tensor([0, 1], device=p.device)] = 4.0


def initialise(p):
    nn.init.constant_(p, 0.125)


def replace_data(p):
    p.data = p.data * 2


def set_by_host_function(p):
    # An operator that the card does not have runs on the CPU and is copied back.
    p.data.erfinv_() if p.abs().max() < 1 else p.data.mul_(2)


WRITES = [
    double_by_data, assign_by_index, write_by_out, write_by_foreach, write_by_lerp, copy_into_data, copy_from_host, write_by_detach,
    write_a_row, write_a_view, write_under_a_preserved_version, write_without_gradients, write_by_mask, scatter_into_data, put_by_index,
    initialise, replace_data, set_by_host_function,
]


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.LayerNorm(7), nn.Linear(7, 3))


def assert_like_the_cpu(compiled, model, x):
    torch.testing.assert_close(compiled(x.to("spyre")).cpu(), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_the_next_call_sees_a_write(write):
    model, x = small_model(), torch.randn(4, 5)
    card = copy.deepcopy(model).to("spyre")
    compiled = torch.compile(card, backend="spyre")
    with torch.no_grad():
        for _ in range(3):
            assert_like_the_cpu(compiled, model, x)
            for m in (model, card):
                for p in m.parameters():
                    write(p)
        assert_like_the_cpu(compiled, model, x)


def test_writes_between_training_steps():
    model, x = small_model(), torch.randn(4, 5)
    card = copy.deepcopy(model).to("spyre")
    compiled = torch.compile(card, backend="spyre")
    for _ in range(4):
        losses = []
        for function, m, given in ((model, model, x), (compiled, card, x.to("spyre"))):
            m.zero_grad()
            loss = function(given).pow(2).mean()
            loss.backward()
            losses.append(loss.item())
            torch._foreach_add_([p.data for p in m.parameters()], [p.grad for p in m.parameters()], alpha=-0.1)
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_an_average_of_weights():
    """The usual exponential moving average, evaluated by a compiled copy after every step."""
    model, x = small_model(), torch.randn(4, 5)
    average = copy.deepcopy(model)
    card, card_average = copy.deepcopy(model).to("spyre"), copy.deepcopy(average).to("spyre")
    compiled = torch.compile(card_average, backend="spyre")
    for step in range(4):
        for m, mean in ((model, average), (card, card_average)):
            for p, q in zip(m.parameters(), mean.parameters()):
                p.data.add_(0.1 * (step + 1))
                q.data.mul_(0.9).add_(p.data, alpha=0.1)
        with torch.no_grad():
            assert_like_the_cpu(compiled, average, x)


def test_a_model_that_leaves_and_comes_back():
    """Freed memory is given out again at the same addresses, with other elements."""
    model, x = small_model(), torch.randn(4, 5)
    card = copy.deepcopy(model).to("spyre")
    compiled = torch.compile(card, backend="spyre")
    with torch.no_grad():
        for _ in range(3):
            assert_like_the_cpu(compiled, model, x)
            card.cpu()
            for m in (model, card):
                for p in m.parameters():
                    p.data.mul_(1.5)
            card.to("spyre")
        assert_like_the_cpu(compiled, model, x)


def test_weights_that_two_models_exchange():
    first, second, x = small_model().to("spyre"), small_model().to("spyre"), torch.randn(4, 5).to("spyre")
    with torch.no_grad():
        for p in second.parameters():
            p.add_(1)
        compiled = torch.compile(first, backend="spyre")
        before, other = compiled(x).cpu(), second(x).cpu()
        for p, q in zip(first.parameters(), second.parameters()):
            p.data, q.data = q.data, p.data
        torch.testing.assert_close(compiled(x).cpu(), other, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(second(x).cpu(), before, rtol=1e-5, atol=1e-5)


def test_unchanged_weights_are_loaded_once():
    """A call that changes nothing writes no weight anew: the simulated card does the same work in every call."""
    model, x = small_model().to("spyre"), torch.randn(4, 5).to("spyre")
    compiled = torch.compile(model, backend="spyre")
    with torch.no_grad():
        compiled(x)
        operations = []
        for _ in range(3):
            before = torch.spyre.get_device_properties()["operations"]
            compiled(x)
            operations.append(torch.spyre.get_device_properties()["operations"] - before)
    assert len(set(operations)) == 1


def test_a_state_that_a_program_writes_is_a_write():
    """A buffer that one compiled program updates is read by another one as it is then."""
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.total = nn.Parameter(torch.zeros(3), requires_grad=False)

        def forward(self, x):
            self.total.add_(x)
            return x * 2

    def read(total):
        return total + 1

    counter = Counter().to("spyre")
    count, reader = torch.compile(counter, backend="spyre"), torch.compile(read, backend="spyre")
    with torch.no_grad():
        for step in range(1, 5):
            count(torch.ones(3, device="spyre"))
            assert reader(counter.total).tolist() == [step + 1.0] * 3
