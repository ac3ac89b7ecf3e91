"""Dtypes that the card holds and does not compute with: operators on them run on the CPU, and are counted."""

import math
import itertools
import copy
import pickle

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64])
def test_they_are_made_copied_and_viewed(dtype):
    torch.manual_seed(0)
    x = torch.randint(0, 60000, (4, 6)).to(dtype)
    if dtype.is_complex:
        x = x + 0.5j * x.flip(0)
    y = x.to("spyre")
    assert y.dtype == dtype and y.device.type == "spyre" and torch.equal(y.cpu(), x)
    for view in (lambda t: t.t(), lambda t: t[1:, ::2], lambda t: t.view(2, 12)[1], lambda t: t.unsqueeze(0).expand(3, -1, -1)):
        assert torch.equal(view(y).cpu(), view(x)) and view(y).stride() == view(x).stride()
    assert torch.equal(y.t().clone().cpu(), x.t()) and torch.equal(y.to("spyre:1").cpu(), x)
    y[0, 1:3].copy_(x[2, 1:3])
    x[0, 1:3].copy_(x[2, 1:3])
    assert torch.equal(y.cpu(), x)
    # PyTorch itself pickles no wide unsigned integers.
    twins = [copy.deepcopy(y)] + ([] if "uint" in str(dtype) else [pickle.loads(pickle.dumps(y))])
    for twin in twins:
        assert twin.device.type == "spyre" and torch.equal(twin.cpu(), x)
    assert y[1, 2].item() == x[1, 2].item()
    y.resize_(3, 5)
    assert torch.equal(y.cpu().flatten(), x.flatten()[:15])
    empty = torch.empty(0, 3, dtype=dtype, device="spyre")
    assert empty.cpu().shape == (0, 3)


def test_operators_on_them_are_visible():
    torch.spyre.reset_fallbacks()
    x = torch.randn(4, 6)
    y = x.to("spyre")
    wide = y.double()
    assert torch.equal((wide * 2 + y).cpu(), x.double() * 2 + x) and wide.sum().item() == x.double().sum().item()
    found = torch.spyre.fallbacks()
    assert "float64" in found["aten::_to_copy"].reason and "holds float64" in found["aten::mul.Tensor"].reason
    for make in (
        lambda d: torch.arange(3, dtype=torch.float64, device=d), lambda d: torch.linspace(0, 1, 5, dtype=torch.float64, device=d),
        lambda d: torch.full((2,), 3 + 1j, device=d), lambda d: torch.eye(3, dtype=torch.float64, device=d),
    ):
        assert torch.equal(make("spyre").cpu(), make("cpu"))


def test_transforms():
    torch.manual_seed(0)
    x = torch.randn(3, 16)
    y = x.to("spyre")
    spectrum = torch.fft.rfft(y)
    assert spectrum.dtype == torch.complex64 and spectrum.device.type == "spyre"
    want = torch.fft.rfft(x)
    for function in (lambda s: s, lambda s: s.abs(), lambda s: s.angle(), lambda s: s.real, lambda s: s.imag, lambda s: s.conj(), lambda s: s.conj() * s, lambda s: torch.view_as_real(s)):
        torch.testing.assert_close(function(spectrum).cpu().resolve_conj(), function(want).resolve_conj(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.fft.irfft(spectrum, 16).cpu(), x, rtol=1e-4, atol=1e-5)
    window = torch.hann_window(16)
    long = torch.randn(2, 200)
    want, got = (torch.stft(t, 16, window=w, return_complex=True) for t, w in ((long, window), (long.to("spyre"), window.to("spyre"))))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
    back = torch.istft(got, 16, window=window.to("spyre"), length=200)
    torch.testing.assert_close(back.cpu(), long, rtol=1e-3, atol=1e-4)


def test_gradients_pass_through_them():
    x = torch.randn(2, 8)
    grads = []
    for device in ("cpu", "spyre"):
        given = x.to(device).detach().requires_grad_()
        (torch.fft.rfft(given).abs().sum() + given.double().pow(2).sum().float()).backward()
        grads.append(given.grad.cpu())
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_rotary_positions_by_complex_numbers():
    def rotate(x, angles):
        turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(turned).flatten(-2)

    x, angles = torch.randn(2, 5, 8), torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1, 0.01, 0.001]))
    for function in (rotate, torch.compile(rotate, backend="spyre")):
        torch.testing.assert_close(function(x.to("spyre"), angles.to("spyre")).cpu(), rotate(x, angles), rtol=1e-4, atol=1e-5)


def test_traced_modules():
    x = torch.randn(2, 6).to("spyre")
    model = torch.nn.Linear(6, 2).to("spyre")
    assert torch.equal(torch.jit.trace(model, x)(x), model(x)), "with the check, which compares in float64"


FORMATS = {
    torch.float64: ("IEEE_FP64", 16), torch.complex64: ("COMPLEX64", 16), torch.complex128: ("COMPLEX128", 8),
    torch.uint16: ("UINT16", 64), torch.uint32: ("SENUINT32", 32), torch.uint64: ("UINT64", 16),
}


@pytest.mark.parametrize("dtype", FORMATS)
def test_the_layout_names_the_elements(dtype):
    name, per_stick = FORMATS[dtype]
    for size in ((4, 70), (3,), (2, 3, 5)):
        x = torch.arange(math.prod(size)).reshape(size).to(dtype)
        layout = x.to("spyre").device_tensor_layout()
        assert layout.device_dtype.name == name and layout.elems_per_stick() == layout.device_size[-1] == per_stick
        assert f"DataFormats.{name}" in repr(layout) and layout.host_size == list(size)
        assert math.prod(layout.device_size) >= x.numel()
        # Every element has a place of its own.
        places = {str(layout.layout().apply(*at)) for at in itertools.product(*map(range, size))}
        assert len(places) == x.numel()
