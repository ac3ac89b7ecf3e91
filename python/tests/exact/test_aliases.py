"""What compiled functions return shares memory as the function says."""

import pytest
import torch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def lie(tensors):
    """Size, strides, offset, elements, and which of the tensors share a storage."""
    storages = [t.untyped_storage().data_ptr() for t in tensors]
    shared = [[i for i, s in enumerate(storages) if s == own] for own in storages]
    return [(tuple(t.shape), t.stride(), t.storage_offset(), t.detach().cpu().tolist(), s) for t, s in zip(tensors, shared)]


def check(function, sizes, **options):
    """A function of tensors of these sizes: on the CPU, and compiled on the device."""
    compiled = torch.compile(function, backend="spyre", **options)
    for size in sizes:
        given = [torch.arange(float(torch.Size(s).numel())).reshape(s) for s in size]
        moved = [g.to("spyre") for g in given]
        want, got = function(*given), compiled(*moved)
        want, got = [*given, *(want if isinstance(want, tuple) else [want])], [*moved, *(got if isinstance(got, tuple) else [got])]
        assert lie(want) == lie(got), (size, options)
        # A write into one is seen by those that share its memory, and by no other.
        for w, g in zip(want[::-1], got[::-1]):
            if 0 in w.stride():
                continue
            w.mul_(2).sub_(3)
            g.mul_(2).sub_(3)
            assert [t.tolist() for t in want] == [t.cpu().tolist() for t in got], (size, options)


FUNCTIONS = {
    "a chunk of an argument": lambda a: (a.chunk(2, -1)[1], a * 2),
    "an argument itself": lambda a: (a, a + 1),
    "a transposed argument": lambda a: (a.t(), a.t()[1:]),
    "two views of one result": lambda a: ((a + a)[1:], (a + a)[:1]),
    "a result and a part of it": lambda a: (lambda y: (y, y[1:], y.t()))(a + a),
    "parts of a part": lambda a: (lambda y: (y[1:].view(-1), y[1:, 2], y.flatten()))(a.relu()),
    "all parts": lambda a: tuple((a - 1).unbind(0)) + tuple(a.split(3, 1)),
    "expanded": lambda a: (lambda y: (y.unsqueeze(0).expand(3, -1, -1), y))(a.neg()),
    "a diagonal": lambda a: (lambda y: (y.diagonal(), y))(a.abs()),
    "by strides": lambda a: (lambda y: (y.as_strided((2, 2), (1, 2), 1), y))(a.square()),
    "a view that is read": lambda a: (lambda z: (z * 2, z))((a + 1)[:, 1:]),
    "results that are transposed": lambda a: (a.t() + 1, a.t().contiguous() + 1, a.t().relu().t().view(-1)),
    "in another order of memory": lambda a: (a.t() * 2).view_as(a.t()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_views_as_in_eager(name):
    with torch.no_grad():
        check(FUNCTIONS[name], [[(4, 8)]])
        check(FUNCTIONS[name], [[(4, 8)], [(4, 12)], [(6, 12)]])
        check(FUNCTIONS[name], [[(4, 8)], [(6, 10)]], dynamic=True)


def test_writes_after_a_break_are_seen():
    def function(a):
        y = a + a
        z = y[1:]
        torch._dynamo.graph_break()
        y.zero_()
        return z

    with torch.no_grad():
        check(function, [[(3,)]])


def test_arguments_that_change():
    def function(a, b):
        a.add_(b)
        return a[1:], a.t(), b

    with torch.no_grad():
        check(function, [[(4, 4), (4, 4)]])


def test_gradients_pass_through_views():
    def function(a):
        y = a * a
        return y.t(), y[1:], a.chunk(2, 1)[1]

    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="spyre", dynamic=dynamic)
        for n in (8, 12):
            given = torch.arange(4.0 * n).reshape(4, n)
            want, got = given.clone().requires_grad_(), given.to("spyre").requires_grad_()
            for f, x in ((function, want), (compiled, got)):
                sum((o * (i + 1)).sum() for i, o in enumerate(f(x))).backward()
            assert want.grad.tolist() == got.grad.cpu().tolist()


def test_in_inference_mode():
    with torch.inference_mode():
        x = torch.arange(12.0).reshape(3, 4).to("spyre")
        y, z = torch.compile(lambda a: (lambda y: (y, y[1:]))(a + 1), backend="spyre")(x)
        y.zero_()
        assert z.sum().item() == 0
