"""Tensors of PyTorch as they are: what `torch.clone` gives, or a refusal that says what to do."""

import random

import numpy as np
import pytest
from zellige import relayout

torch = pytest.importorskip("torch")

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
]


def bits(t):
    """The bytes of the elements, in row-major order."""
    t = t.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return t.flatten().view(torch.uint8)


def text(shape):
    strides = [1] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        strides[d] = strides[d + 1] * max(shape[d + 1], 1)
    return f"S[({','.join(map(str, shape))}):({','.join(map(str, strides))})]"


def random_tensor(rng, dtype):
    """Any strides that PyTorch has: permuted, expanded, as_strided, sliced; lazy bits where there are."""
    memory = torch.randint(0, 256, (rng.randint(300, 600) * 16,), dtype=torch.uint8)
    if dtype == torch.bool:
        memory = memory % 2
    base = memory.view(dtype)
    if dtype.is_complex and rng.random() < 0.3:
        # The negative of an imaginary part is lazy, and real.
        base = torch.view_as_real(base)[..., 1] if rng.random() < 0.5 else base.conj().imag
    rank = rng.randint(0, 4)
    shape = [rng.choice([1, 2, 3, 4, 5]) for _ in range(rank)]
    stride = [rng.choice([0, 1, 2, 3, 7]) for _ in range(rank)]
    offset = rng.randint(0, 40)
    while offset + sum((n - 1) * s for n, s in zip(shape, stride)) >= base.numel():
        stride = [s // 2 for s in stride]
    t = base.as_strided(shape, stride, base.storage_offset() + offset)
    if rank > 1 and rng.random() < 0.5:
        t = t.permute(*rng.sample(range(rank), rank))
    if rank and shape[0] > 1 and rng.random() < 0.3:
        t = t[1:]
    if t.is_complex() and rng.random() < 0.5:
        t = t.conj()
    if (t.is_floating_point() or t.is_complex()) and t.dtype.itemsize > 1 and rng.random() < 0.4:
        t = torch._neg_view(t)
    return t


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_relayout_is_clone(dtype):
    rng = random.Random(str(dtype))
    torch.manual_seed(12)
    lazy = 0
    for _ in range(120):
        t = random_tensor(rng, dtype)
        lazy += t.is_conj() or t.is_neg()
        got = relayout(t) if not t.dim() else relayout(t, None, text(t.shape))
        assert got.dtype == t.dtype and not got.is_conj() and not got.is_neg()
        assert torch.equal(got.flatten().view(torch.uint8), bits(t)), (t.shape, t.stride(), t.is_conj(), t.is_neg())
        out = torch.empty(t.shape, dtype=t.dtype)
        relayout(t, out=out)
        assert torch.equal(out.flatten().view(torch.uint8), bits(t))
    assert lazy > 20 or not (dtype.is_complex or dtype.is_floating_point) or dtype.itemsize == 1


def test_a_lazy_out_is_refused():
    t = torch.ones(3, dtype=torch.complex64)
    out = torch.zeros(3, dtype=torch.complex64)
    with pytest.raises(ValueError, match="conjugates of its elements.*resolve_conj"):
        relayout(t, out=out.conj())
    with pytest.raises(ValueError, match="other sign.*resolve_neg"):
        relayout(torch.ones(3), out=out.conj().imag)
    assert not out.any()


class Counting(torch.Tensor):
    """A subclass that adds nothing to the elements."""


class Computing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def hidden(t):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return mode.from_tensor(t)


T = torch.arange(6.0).reshape(2, 3)
REFUSED = [
    ("coo", lambda: T.to_sparse(), "sparse_coo.*to_dense"),
    ("csr", lambda: T.to_sparse_csr(), "sparse_csr.*to_dense"),
    ("csc", lambda: T.to_sparse_csc(), "sparse_csc.*to_dense"),
    ("bsr", lambda: T.to_sparse_bsr((1, 1)), "sparse_bsr.*to_dense"),
    ("bsc", lambda: T.to_sparse_bsc((1, 1)), "sparse_bsc.*to_dense"),
    ("mkldnn", lambda: T.to_mkldnn(), "_mkldnn.*to_dense"),
    ("quantized", lambda: torch.quantize_per_tensor(T, 0.1, 0, torch.qint8), "int_repr"),
    ("meta", lambda: T.to("meta"), "meta has a shape and no elements"),
    ("fake", lambda: hidden(T), "FakeTensor is a subclass"),
    ("function", lambda: T.as_subclass(Computing), "Computing is a subclass.*as_subclass"),
    ("nested", lambda: torch.nested.nested_tensor([T, T[:1]]), "nested"),
    ("jagged", lambda: torch.nested.nested_tensor([T, T[:1]], layout=torch.jagged), "NestedTensor is a subclass|nested"),
    ("functional", lambda: torch._to_functional_tensor(T), "torch.func"),
    ("computed", lambda: T.clone().requires_grad_() * 2, "detach"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make, reason", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refusals_say_what_to_do(make, reason):
    x = make()
    with pytest.raises((TypeError, ValueError), match=reason):
        relayout(x)
    with pytest.raises((TypeError, ValueError)):
        relayout(T, out=x)


def test_transforms_are_refused():
    def inner(x):
        with pytest.raises(TypeError, match="outside of the transform"):
            relayout(x)
        return x

    torch.func.vmap(inner)(T)
    torch.func.grad(lambda x: inner(x).sum())(T)


def test_parameters_and_plain_subclasses_are_their_elements():
    p = torch.nn.Parameter(T.clone())
    assert torch.equal(relayout(p), T) and not relayout(p).requires_grad
    assert torch.equal(torch.Tensor(relayout(T.as_subclass(Counting))), T)
    with pytest.raises(ValueError, match="no_grad"):
        relayout(T + 1, out=p)
    with torch.no_grad():
        relayout(T + 1, out=p)
        assert torch.equal(relayout(p * 2), (T + 1) * 2)
    assert torch.equal(p, T + 1)
    assert torch.equal(relayout(torch._efficientzerotensor(3)), torch.zeros(3))


def test_a_gradient_notices_that_out_was_written():
    x = torch.ones(2, 3, requires_grad=True)
    y = torch.ones(2, 3)
    z = (x * y).sum()
    relayout(T, out=y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    with torch.inference_mode():
        out = torch.zeros(2, 3)
        assert torch.equal(relayout(T, out=out), T)


def test_arrays_of_numpy():
    a = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(relayout(np.asmatrix(a)), a)
    with pytest.raises(TypeError, match="filled"):
        relayout(np.ma.masked_array(a, a > 2))
    for odd in (np.array([None, 1]), np.array(["a"]), np.zeros(2, dtype=[("x", "f4")])):
        with pytest.raises((TypeError, ValueError, BufferError)):
            relayout(odd)


def test_lazy_tensors_arrive_on_the_device():
    x = torch.tensor([1 + 2j, 3 - 1j]).conj().imag
    assert x.is_neg()
    assert torch.equal(x.to(torch.float16).to("spyre").cpu(), x.to(torch.float16))
    y = torch._neg_view(torch.arange(4, dtype=torch.float16))
    assert torch.equal(y.to("spyre").cpu(), -torch.arange(4, dtype=torch.float16))
    z = torch.zeros(4, dtype=torch.float16, device="spyre")
    z.copy_(y)
    assert torch.equal(z.cpu(), -torch.arange(4, dtype=torch.float16))
    back = torch._neg_view(torch.zeros(4, dtype=torch.float16))
    back.copy_(z)
    assert torch.equal(back + 0, -torch.arange(4, dtype=torch.float16))
