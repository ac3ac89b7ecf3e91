"""int64 on the device: values past 32 bits are refused, never cut."""

import pytest
import torch


def test_an_index_past_32_bits_is_refused():
    for value in (2**32, 2**31, -(2**31) - 1, 2**63 - 1):
        index = torch.tensor([[0, 1, 2], [1, value, 0]])
        with pytest.raises(RuntimeError, match=rf"the integer {value} at \[1, 1\] does not fit in the 32 bits"):
            index.to("spyre")
    ends = torch.tensor([-(2**31), 2**31 - 1, 0, -1])
    assert torch.equal(ends.to("spyre").cpu(), ends)


def test_nothing_is_written_when_a_copy_is_refused():
    x = torch.zeros(3, dtype=torch.int64, device="spyre")
    with pytest.raises(RuntimeError, match=r"the integer 4294967296 at \[2\]"):
        x.copy_(torch.tensor([1, 2, 2**32]))
    assert not x.cpu().any()


@pytest.mark.parametrize("make", [
    lambda x: x.fill_(2**32),
    lambda x: torch.full((3,), 2**40, dtype=torch.int64, device="spyre"),
    lambda x: torch.arange(2**31 - 2, 2**31 + 2, device="spyre"),
    lambda x: x + 2**33,
    lambda x: torch.nn.functional.embedding(torch.tensor([2**32]).to("spyre"), torch.ones(4, 8, dtype=torch.float16).to("spyre")),
])
def test_numbers_and_sequences_past_32_bits_are_refused(make):
    x = torch.zeros(3, dtype=torch.int64, device="spyre")
    with pytest.raises(RuntimeError, match="32 bits"):
        make(x)
    assert not x.cpu().any()
