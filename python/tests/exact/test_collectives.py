"""Collectives of `spyreccl`: every reduction of every format against a definition, errors, and costs."""

import collective_cases as cases
import pytest
from ranks import Ranks


@pytest.fixture(scope="module")
def three():
    ranks = Ranks(3, ZELLIGE_LINK_BANDWIDTH="25.6", ZELLIGE_LINK_LATENCY="1.5")
    yield ranks
    ranks.close()


def test_reductions(three):
    assert three.run(cases.reductions) == [[]] * 3


def test_large_ones_and_views(three):
    assert three.run(cases.large) == [[]] * 3


def test_moves(three):
    assert three.run(cases.moves) == [[]] * 3


def test_numbers_that_float16_has_not(three):
    for got, want, tiny in three.run(cases.wide_numbers):
        assert got == want and got[0] > 65504 * 3 / 1024
        assert tiny == [2.0**-12] * 3


def test_tensors_without_elements(three):
    assert three.run(cases.empty) == [[0.0, 1.0, 2.0]] * 3


@pytest.mark.parametrize("how, said", [
    ("size", "rank 0 has 32 elements for rank 1, which takes 36"),
    ("operation", "rank 1: broadcast of rank 0 of float32 [4]"),
    ("dtype", "rank 1: all_reduce by SUM of int32 [4]"),
    ("parts", "rank 0 has 2 elements for rank 1, which takes 3"),
])
def test_calls_that_do_not_fit(three, how, said):
    for text, after in three.run(cases.mismatch, how):
        assert text.startswith("DistBackendError: spyreccl: call ") and said in text, text
        assert after == [3.0, 3.0], "the group works afterwards"


def test_costs_follow_from_sizes_alone(three):
    def us(messages, nbytes):
        return (messages * 1_500_000 + -(-nbytes * 10_000 // 256)) / 1e6

    # 500 elements of two bytes, cut in three parts of at most 334 bytes.
    want = [
        ("all_reduce", "float16", (5, 100), 4, 4 * 334, us(4, 4 * 334)),
        ("all_gather", "float16", (5, 100), 2, 2 * 1000, us(2, 2 * 1000)),
        ("reduce_scatter", "float32", (15,), 2, 2 * 20, us(2, 2 * 20)),
        ("broadcast", "float16", (5, 100), 2, 1000, us(2, 1000)),
        ("barrier", "uint8", (), 4, 0, us(4, 0)),
    ]
    for found, elapsed in three.run(cases.costs):
        assert found == want
        assert elapsed == pytest.approx(want[0][-1], abs=1e-6)


def test_messages(three):
    assert three.run(cases.messages) == [[{"rank": r} for r in range(3)]] * 3


def test_a_process_that_does_not_come(three):
    for said, seconds in three.run(cases.stays_away, 2)[:2]:
        assert "spyreccl: all_reduce on rank" in said, said
        # The first to give up leaves the group, which the other may see before its own time is over.
        assert "another process did not come within 2 s" in said or "left it" in said, said
        assert seconds < 5


def test_a_process_that_ends(three):
    """The last test of these processes: one is gone after it."""
    found = three.answers(cases.ends, 2, seconds=40)
    assert found[2] == (None, "ended")
    for fine, answer in found[:2]:
        assert fine, answer
        said, seconds = answer
        assert "spyreccl: all_reduce on rank" in said and "another process of the group ended, or left it" in said, said
        assert seconds < 30, "long before the group's timeout"
