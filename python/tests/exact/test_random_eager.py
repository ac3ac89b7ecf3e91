"""Random eager programs give the CPU's values, dtypes and strides."""

import pytest
import torch
from random_eager import PROGRAMS, differences


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_random_programs_are_as_on_the_cpu(kind, seed):
    assert differences(kind, seed, 300) == []


def test_the_result_of_an_index_can_be_viewed_as_on_the_cpu():
    x, index = torch.arange(12.0).view(3, 4), torch.tensor([2, 0])
    got = x.to("spyre")[:, index.to("spyre")].view(-1)
    assert got.tolist() == x[:, index].view(-1).tolist() == [2, 0, 6, 4, 10, 8]


def test_integers_that_the_dtype_does_not_hold_are_as_on_the_cpu():
    small = torch.tensor([5, 250], dtype=torch.uint8)
    number = torch.tensor(-38, dtype=torch.int8)
    card, other = small.to("spyre"), number.to("spyre")
    for name in "minimum maximum floor_divide remainder fmod lt pow fmax fmin clamp".split():
        want = getattr(torch, name)(small, number)
        got = getattr(torch, name)(card, other)
        assert got.dtype == want.dtype and got.tolist() == want.tolist(), name
    assert torch.copysign(card, -7).tolist() == [-5, -250]
    assert card.clone().fmod_(-1).tolist() == small.clone().fmod_(-1).tolist()


def test_an_exponent_past_the_largest_power_of_two_still_has_a_product():
    x, exponents = torch.tensor([1e-30, 1e30, 1.0, -3.0]), torch.tensor([200, -180, -149, 2])
    want = torch.ldexp(x, exponents)
    assert torch.ldexp(x.to("spyre"), exponents.to("spyre")).tolist() == want.tolist()
    assert x.to("spyre").ldexp_(exponents.to("spyre")).tolist() == want.tolist()


def test_a_number_goes_where_the_cpu_s_operator_takes_a_tensor():
    x = torch.tensor([1.0, 2.0, 0.0])
    torch.testing.assert_close(x.to("spyre").xlogy_(2.5).cpu(), x.clone().xlogy_(2.5))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.tensor([1, 2]).to("spyre").xlogy_(2.5)
