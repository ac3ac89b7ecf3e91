"""Numbers beside tensors of integers and truths: what the dtype does not hold wraps, or changes the result."""

import database
import pytest
import torch
from scalars import FUNCTIONS, KNOWN, NUMBERS, differs

database.quiet()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool], ids=database.short)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers(name, dtype):
    for number in NUMBERS:
        found = differs(FUNCTIONS[name], dtype, number)
        # True is 1 for a set, and not for an operator.
        if number is not True and (dtype, name, number) in KNOWN:
            assert found, f"{number}: it is right now, take it out of KNOWN"
        else:
            assert not found, f"{number}: {found}"
