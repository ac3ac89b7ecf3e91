"""Transfers, and above all those that the existing front end gets wrong."""

import pytest
import torch
from zellige import SpyreTensorLayout


def device(x):
    """What the card holds of float16 numbers: one bit less."""
    return x.to("spyre").cpu()


def moved_bytes(function):
    """Bytes that transfers took, by the accounts of the card."""
    before = torch.spyre.get_device_properties()["operations"]
    function()
    return torch.spyre.get_device_properties()["operations"] - before


def test_1_strided_and_expanded_stick_dimensions():
    for x in (
        torch.arange(200, dtype=torch.float16)[::2],
        torch.arange(900, dtype=torch.int32)[::3],
        torch.rand(40, 1, dtype=torch.float16).expand(40, 130),
        torch.rand(1, 130, dtype=torch.float16).expand(40, 130),
        torch.rand(130, 40, dtype=torch.float16).t(),
        torch.rand(6, 200, dtype=torch.float16)[:, ::3],
    ):
        assert torch.equal(device(x), device(x.contiguous()))


def test_2_inexact_stride_ratios():
    x = torch.rand(40, 120, dtype=torch.float16)
    for part in (x[:, :50], x[:, 60:], x[3:17, 7:111], x[::3, ::7]):
        assert torch.equal(device(part), device(part.contiguous()))


def test_3_down_into_destinations_with_gaps():
    x = device(torch.rand(70, 130, dtype=torch.float16))
    y = x.to("spyre")
    base = torch.zeros(140, 130, dtype=torch.float16)
    base[::2].copy_(y)
    assert torch.equal(base[::2], x) and not base[1::2].any()
    turned = torch.empty(130, 70, dtype=torch.float16).t()
    turned.copy_(y)
    assert torch.equal(turned, x)
    base[10:80, 5:20].copy_(y[:, 60:75])
    assert torch.equal(base[10:80, 5:20], x[:, 60:75])


def test_4_up_into_views_at_an_offset():
    y = torch.zeros(10, 130, dtype=torch.float16, device="spyre")
    y[4:6, 62:70].copy_(torch.ones(2, 8, dtype=torch.float16))
    y.t()[3].copy_(torch.full((10,), 2.0, dtype=torch.float16))
    want = torch.zeros(10, 130, dtype=torch.float16)
    want[4:6, 62:70] = 1
    want.t()[3] = 2
    assert torch.equal(y.cpu(), want)


def test_5_resize_in_place_keeps_flat_order():
    x = torch.arange(512, dtype=torch.int32).reshape(4, 128)
    for size in ([2, 128], [8, 64], [3, 100], [512], [4, 4, 32]):
        y, z = x.to("spyre"), x.clone()
        y.resize_(size)
        z.resize_(size)
        assert torch.equal(y.cpu(), z)
    y = x.to("spyre").resize_(5, 128)
    assert torch.equal(y[:4].cpu(), x) and not y[4].cpu().any(), "what is new is zero"


def test_6_another_layout_on_the_device():
    y = torch.rand(70, 130, dtype=torch.float16).to("spyre")
    layout = SpyreTensorLayout([70, 130], torch.float16, [1, 0])
    z = y.to("spyre", device_layout=layout)
    assert z is not None and z.device_tensor_layout() == layout and torch.equal(z.cpu(), y.cpu())


def test_7_a_row_moves_its_own_sticks_only():
    y = torch.rand(64, 6400, dtype=torch.float16).to("spyre")
    row = SpyreTensorLayout([6400], torch.float16).nbytes
    def busy(function):
        before = torch.spyre.get_device_properties()["busy_us"]
        function()
        return torch.spyre.get_device_properties()["busy_us"] - before
    whole, part = busy(lambda: y.cpu()), busy(lambda: y[3].cpu())
    assert part < whole / 20, f"{row} bytes took {part} us of {whole} us"
    assert torch.equal(y[3].cpu(), y.cpu()[3])


def test_8_zero_sizes_do_nothing_correctly():
    for size in ([0], [4, 0], [0, 4], [3, 0, 5]):
        x = torch.empty(size, dtype=torch.float16)
        y = x.to("spyre")
        assert y.cpu().shape == x.shape and (y + y).shape == x.shape and y.sum().item() == 0
        assert y.device_tensor_layout().nbytes == 0
        y.copy_(x)
        x.copy_(y)
    assert torch.cat([torch.empty(0, 3, device="spyre"), torch.ones(2, 3, device="spyre")]).shape == (2, 3)


def test_9_sparse_and_dense():
    x = torch.rand(100, 30, dtype=torch.float16)
    sparse = SpyreTensorLayout([100, 30], torch.float16, [0, 1, -1])
    assert sparse.is_sparse
    y = x.to("spyre", device_layout=sparse)
    dense = y.to("spyre", device_layout=SpyreTensorLayout([100, 30], torch.float16))
    again = dense.to("spyre", device_layout=sparse)
    assert torch.equal(y.cpu(), device(x)) and torch.equal(dense.cpu(), device(x)) and torch.equal(again.cpu(), device(x))
    assert torch.equal((y + dense).cpu(), (dense + dense).cpu())


def test_broadcasts_and_dtypes():
    y = torch.zeros(4, 70, device="spyre")
    y.copy_(torch.arange(70))
    assert torch.equal(y.cpu(), torch.arange(70.0).expand(4, 70))
    y.copy_(torch.tensor([True, False]).repeat(35))
    assert y.cpu().sum() == 4 * 35
    host = torch.zeros(4, 70, dtype=torch.int64)
    host.copy_(y)
    assert host.sum() == 140
    z = torch.zeros(4, 70, dtype=torch.int32, device="spyre")
    z.copy_(y)
    assert torch.equal(z.cpu(), host.int())
    with pytest.raises(RuntimeError, match="broadcast"):
        y.copy_(torch.ones(3, 70))


def test_channels_last():
    x = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    y = x.to("spyre")
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y.cpu().contiguous(), device(x.contiguous()))
    made = torch.empty(2, 3, 8, 8, device="spyre", memory_format=torch.channels_last)
    assert made.stride() == x.stride()


def test_overlapping_copies_on_the_card():
    y = torch.arange(300, dtype=torch.int32).to("spyre")
    z = torch.arange(300, dtype=torch.int32)
    y[10:210].copy_(y[:200].clone())
    z[10:210] = z[:200].clone()
    assert torch.equal(y.cpu(), z)
