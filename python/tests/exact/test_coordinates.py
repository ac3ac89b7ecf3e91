"""Coordinates and positions are computed in float32 or in integers, whatever the dtype of the elements."""

import pytest
import torch
import torch.nn.functional as F

HALVES = [torch.float16, torch.bfloat16]


def held(x):
    """The numbers as the card holds them, so that only what it computes can differ."""
    return x.to("spyre").cpu()


def close(got, want, dtype):
    # One rounding of the result to the 16 bits of the card.
    step = {torch.float16: 2**-9, torch.bfloat16: 2**-7, torch.float32: 1e-5}[dtype]
    torch.testing.assert_close(got.cpu().float(), want.float(), atol=2 * step, rtol=2 * step)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_interpolate(dtype, compiled):
    torch.manual_seed(0)
    for size, to in ((200, 333), (640, 1000)):
        image = held(torch.rand(1, 1, 2, size).to(dtype))
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
            for aligned in ((False, True) if mode.startswith("bi") else (None,)):
                f = lambda x: F.interpolate(x, size=(3, to), mode=mode, align_corners=aligned)
                run = torch.compile(f, backend="spyre") if compiled else f
                got, want = run(image.to("spyre")), f(image)
                if mode.startswith("nearest"):
                    assert torch.equal(got.cpu(), want), (mode, size)
                else:
                    close(got, want, dtype)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_grids(dtype, compiled):
    torch.manual_seed(0)
    theta = held(torch.tensor([[[1.0, 0.25, 0.125], [-0.25, 0.75, 0.0]]]).to(dtype))
    f = lambda t: F.affine_grid(t, [1, 2, 90, 130], align_corners=False)
    run = torch.compile(f, backend="spyre") if compiled else f
    close(run(theta.to("spyre")), f(theta.float()), dtype)
    image, grid = held(torch.rand(1, 2, 90, 130).to(dtype)), held(f(theta.float()).to(dtype))
    for mode in ("bilinear", "nearest"):
        g = lambda x, at: F.grid_sample(x, at, mode=mode, align_corners=False)
        run = torch.compile(g, backend="spyre") if compiled else g
        # As far from the exact result as the CPU is with the same dtype: it weighs in 16 bits.
        got, exact = run(image.to("spyre"), grid.to("spyre")).cpu().float(), g(image.float(), grid.float())
        own = g(image, grid).float()
        if mode == "nearest":
            assert (got == own).float().mean() > 0.99
        else:
            assert (got - exact).abs().max() <= 1.1 * (own - exact).abs().max() + 1e-6
            assert (got - own).abs().max() < 2e-3


@pytest.mark.parametrize("dtype", HALVES + [torch.float32])
def test_sequences(dtype):
    made = {
        "linspace": lambda device: torch.linspace(-1, 1, 1001, dtype=dtype, device=device),
        "arange": lambda device: torch.arange(0, 100, 0.1, dtype=dtype, device=device),
        "whole": lambda device: torch.arange(0, 250, dtype=dtype, device=device),
    }
    for name, make in made.items():
        for run in (make, torch.compile(make, backend="spyre")):
            # Rounded once, from float64, as they are on the CPU.
            got, want = run("spyre").cpu(), make("cpu")
            if dtype is torch.float32:
                assert torch.equal(got, want) or (got - want).abs().max() <= 1e-5
            else:
                assert ((got.float() - want.float()).abs() <= want.float().abs() * (2**-9 if dtype is torch.float16 else 2**-7) + 1e-7).all(), name


def rotary(positions, dtype, dim=128, base=10000.0):
    """The tables of Llama, as its code computes them."""
    inverse = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64, device=positions.device).float() / dim))
    angles = (inverse[None, :, None].expand(1, -1, 1) @ positions[None, None, :].float()).transpose(1, 2)
    both = torch.cat((angles, angles), dim=-1)
    return both.cos().to(dtype), both.sin().to(dtype)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_rotary_tables(dtype, compiled):
    positions = torch.arange(0, 4096, 5)
    f = lambda p: rotary(p, dtype)
    run = torch.compile(f, backend="spyre") if compiled else f
    for got, want in zip(run(positions.to("spyre")), rotary(positions, torch.float64)):
        # An angle of 4096 has an error of 2^-12 in float32 and would have 4 in 16 bits.
        assert (got.cpu().double() - want).abs().max() < (2e-3 if dtype is torch.float16 else 8e-3)


def test_positions_past_the_16_bits():
    x = torch.arange(5000, device="spyre")
    assert torch.equal(x.float().cpu(), torch.arange(5000).float())
    assert torch.equal((x.float() * 3 + 1).long().cpu(), torch.arange(5000) * 3 + 1)


@pytest.mark.parametrize("compiled", [False, True])
def test_images_of_bytes(compiled):
    torch.manual_seed(0)
    image = torch.randint(0, 256, (1, 3, 20, 31), dtype=torch.uint8)
    for mode in ("bilinear", "bicubic", "nearest", "nearest-exact"):
        for antialias in ((False, True) if mode.startswith("bi") else (False,)):
            f = lambda x: F.interpolate(x, size=(33, 45), mode=mode, antialias=antialias)
            run = torch.compile(f, backend="spyre") if compiled else f
            got, want = run(image.to("spyre")).cpu(), f(image)
            assert got.dtype == torch.uint8 and torch.equal(got, want), (mode, (got.int() - want.int()).abs().max())
