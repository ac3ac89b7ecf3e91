"""Tensors placed in the scratchpads (LX) or in device memory, and where buffers are."""

import pytest
import torch

import zellige

SIZE = (512, 256)


@pytest.fixture(autouse=True)
def forget_graphs():
    torch._dynamo.reset()


def compiled(function, x):
    """The result of a function as one program, and the memories of its buffers."""
    got = torch.compile(function, backend="spyre", fullgraph=True)(x)
    report = torch.spyre.last_report()
    assert not report.fallbacks and not report.refused, str(report)
    return got, {name: layout.memory_space for name, layout in zellige.compile.buffers().items()}


def add_softmaxes(y):
    return y.softmax(0) + y.softmax(1)


def test_a_place_holds_inside_a_compiled_function():
    x = torch.rand(SIZE).half().to("spyre")
    want = ((x + 1).relu() * 2).cpu()
    for space in ("lx", "memory"):
        got, spaces = compiled(lambda x: torch.spyre.place(x + 1, space).relu() * 2, x)
        assert torch.equal(got.cpu(), want) and spaces["add"] == space
        assert spaces["mul"] == "memory" and spaces["arg0_1"] == "memory"
        torch._dynamo.reset()
    buffers = torch.spyre.last_report().programs[0].report()["buffers"]
    assert all(b["place"] for b in buffers), "the report has the same"


def test_an_argument_is_copied_into_the_scratchpads():
    x = torch.rand(SIZE).half().to("spyre")
    got, spaces = compiled(lambda x: torch.spyre.place(x, "lx").relu() * 2, x)
    assert torch.equal(got.cpu(), (x.relu() * 2).cpu()) and spaces["arg0_1"] == "memory" and spaces["place"] == "lx"


def test_lx_holds_what_is_placed_there():
    x = torch.rand(33, 1000).half().to("spyre")
    sums = lambda y: y.sum(0).sum() + y.sum(1).sum()
    want, moved = compiled(lambda x: sums(torch.spyre.place(x + 1, "memory")), x)
    got, placed = compiled(lambda x: sums(torch.spyre.place(x + 1, "lx")), x)
    assert moved["add"] == "memory" and placed["add"] == "lx"
    assert torch.allclose(got.cpu(), want.cpu(), rtol=2e-2)


def test_gradients_pass_through_a_place():
    x = torch.rand(SIZE).half().to("spyre").requires_grad_()
    torch.compile(lambda x: (torch.spyre.place(x * 2, "lx") * 3).sum(), backend="spyre", fullgraph=True)(x).backward()
    assert torch.equal(x.grad.cpu(), torch.full(SIZE, 6.0, dtype=torch.float16))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.spyre.place(x + 1, "lx"), "the program returns it"),
        (lambda x: torch.spyre.place(x + 1, "lx")[:100].relu(), "a view of it"),
        (lambda x: add_softmaxes(torch.spyre.place(x + 1, "lx")), "into another layout"),
    ],
)
def test_a_place_that_cannot_be_is_an_error_with_the_reason(function, reason):
    x = torch.rand(SIZE).half().to("spyre")
    with pytest.raises(ValueError, match=f"is placed in lx, and cannot be there: .*{reason}"):
        torch.compile(function, backend="spyre")(x)


def test_eager_tensors_are_in_device_memory():
    x = torch.rand(SIZE).half().to("spyre")
    assert torch.spyre.memory_space(x) == "memory" and torch.spyre.memory_space(x.cpu()) is None
    assert torch.spyre.place(x, "memory") is x
    with pytest.raises(RuntimeError, match="inside a function"):
        torch.spyre.place(x, "lx")
    with pytest.raises(ValueError, match="accepted are 'lx' and 'memory'"):
        torch.spyre.place(x, "dram")
    with pytest.raises(ValueError, match="the tensor is on cpu"):
        torch.spyre.place(x.cpu(), "memory")
