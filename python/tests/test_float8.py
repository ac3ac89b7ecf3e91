"""float8: what PyTorch gives, over every value of the narrow formats, here and on the device."""

import pytest
from zellige import LayoutError, relayout

torch = pytest.importorskip("torch")

FORMATS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e5m2fnuz]
EDGES = [0.0, -0.0, 1e9, 448, 463.99, 464, 465, 480, 57344, 61439, 61440, 65536, 1e-9, 2**-10, 2**-17, float("inf"), float("nan")]


def values(dtype):
    """Every value of a 16-bit format; of float32 the neighbourhood of every one of those, and edges."""
    codes = torch.arange(1 << 16, dtype=torch.int32)
    if dtype.itemsize == 2:
        return codes.to(torch.uint16).view(dtype)
    wide = (codes[:, None] << 16) | torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=torch.int32)
    edges = torch.tensor(EDGES + [-x for x in EDGES], dtype=torch.float32)
    every = torch.cat([wide.flatten().view(torch.float32), edges])
    return every.to(dtype)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_conversions_are_those_of_pytorch(source, fmt):
    x = values(source)
    got = relayout(x, out=torch.empty(x.shape, dtype=fmt))
    want = x.to(fmt)
    nan = want.float().isnan()
    assert torch.equal(got.float().isnan(), nan)
    assert torch.equal(got.view(torch.uint8)[~nan], want.view(torch.uint8)[~nan])


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_code_is_read_as_pytorch_reads_it(fmt):
    x = torch.arange(256, dtype=torch.uint8).view(fmt)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        got, want = relayout(x, out=torch.empty(256, dtype=dtype)), x.to(dtype)
        assert torch.equal(got.nan_to_num(nan=7777), want.nan_to_num(nan=7777))
        assert torch.equal(got.signbit()[~got.isnan()], want.signbit()[~want.isnan()])


def test_overflow_saturates_or_not_as_the_format_says():
    x = torch.tensor([1e9, -1e9, 465.0, float("inf"), -float("inf"), float("nan")])
    to = lambda fmt: relayout(x, out=torch.empty(6, dtype=fmt)).view(torch.uint8).tolist()
    assert to(torch.float8_e4m3fn)[:5] == [0x7E, 0xFE, 0x7E, 0x7E, 0xFE] and to(torch.float8_e4m3fn)[5] & 0x7F == 0x7F
    assert to(torch.float8_e5m2)[:5] == [0x7C, 0xFC, 0x5F, 0x7C, 0xFC]
    assert to(torch.float8_e5m2fnuz)[:5] == [0x80, 0x80, 0x63, 0x80, 0x80]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_the_device_converts_as_the_cpu(fmt):
    # Numbers that DLFloat16 holds too, so that the upload changes none.
    x = torch.tensor([0.0, 0.5, -1.25, 240, 256, 448, 456, 464, 480, 512, -512, 1000, 40960, 57344, 61440, 65408])
    x = x.to(torch.float16)
    assert torch.equal(x.to("spyre").cpu(), x)
    got, want = x.to("spyre").to(fmt).cpu(), x.to(fmt)
    nan = want.float().isnan()
    assert torch.equal(got.float().isnan(), nan)
    assert torch.equal(got.view(torch.uint8)[~nan], want.view(torch.uint8)[~nan])


def test_formats_without_numbers_here_move_as_they_are_or_are_refused():
    x = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fnuz)
    assert torch.equal(relayout(x, None, "S[256:1]").view(torch.uint8), x.view(torch.uint8))
    with pytest.raises(LayoutError, match="float8_e4m3fnuz"):
        relayout(x, out=torch.empty(256))
    with pytest.raises(TypeError, match="float8_e8m0fnu.*view"):
        relayout(torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu))
