"""``view(dtype)``: the same bits under another dtype of the same width, where the device stores the host's bits."""

import pytest
import torch


@pytest.mark.parametrize("shape", [(5,), (3, 70), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("pair", [(torch.float32, torch.int32), (torch.int32, torch.float32)], ids=str)
def test_bits_of_one_width_are_read_and_written_in_place(pair, shape):
    first, second = pair
    host = torch.randn(shape).view(torch.int32).view(first)
    card = host.to("spyre")
    assert torch.equal(card.view(second).cpu().view(torch.int32), host.view(torch.int32))
    card.view(second).fill_(3)
    host.view(second).fill_(3)
    assert torch.equal(card.cpu().view(torch.int32), host.view(torch.int32))
    assert torch.equal(card.view(second).add(1).cpu(), host.view(second).add(1))


@pytest.mark.parametrize("pair", [(torch.uint8, torch.int8), (torch.float16, torch.int16), (torch.bool, torch.int8), (torch.int64, torch.int32)], ids=str)
def test_other_bits_are_refused_with_what_to_do(pair):
    first, second = pair
    with pytest.raises(RuntimeError, match=r"x.cpu\(\).view\(dtype\)"):
        torch.ones(4, dtype=first).to("spyre").view(second).cpu()
