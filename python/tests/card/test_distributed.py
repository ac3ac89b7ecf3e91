"""Collectives between processes, each with cards of its own."""

import collective_cases
import pytest
from ranks import Ranks


@pytest.fixture(scope="module")
def two():
    ranks = Ranks(2)
    yield ranks
    ranks.close()


def test_two_processes(two):
    assert two.run(collective_cases.plain) == [(630.0, [0.0, 1.0], 1.0, "spyre")] * 2


def test_collectives_of_one_tensor(two):
    whole = [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]
    mean = [5.0, 6.0, 7.0, 8.0]
    assert two.run(collective_cases.of_one_tensor) == [
        [whole, [10.0, 12.0], [5.0, 6.0], [0.0, 1.0, 10.0, 11.0], [0.0, 1.0, 10.0, 11.0], mean],
        [whole, [14.0, 16.0], [7.0, 8.0], [2.0, 3.0, 12.0, 13.0], [2.0, 3.0, 12.0, 13.0], mean],
    ]


def test_narrow_formats(two):
    """float32 in 16 bits and int64 in 32: every collective against its definition, and half of the bytes."""
    assert two.run(collective_cases.reductions) == [[]] * 2
    assert two.run(collective_cases.large) == [[]] * 2
    assert two.run(collective_cases.moves) == [[]] * 2
    for found, _ in two.run(collective_cases.costs):
        # Five elements of two bytes; two microseconds, and 10 bytes at 63 GB/s in whole picoseconds.
        assert found[2] == ("reduce_scatter", "float32", (10,), 1, 10, 2.000159)


def test_sharded_modules_train():
    ranks = Ranks(2, ZELLIGE_FP32="keep")
    try:
        for shape, device, error in ranks.run(collective_cases.sharded_modules):
            assert (shape, device) == ([16, 16], "spyre") and error < 1e-5
    finally:
        ranks.close()
