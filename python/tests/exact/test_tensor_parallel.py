"""Models divided over two and four processes, each with a card: equal to one card, with the cost of what they exchange."""

import re

import parallel_cases as cases
import pytest
from ranks import Ranks

US = 2.0 * 1e6  # picoseconds of a message
GBS = 63


@pytest.fixture(scope="module")
def four():
    ranks = Ranks(4)
    yield ranks
    ranks.close()


def time_us(messages, nbytes):
    """Microseconds of an exchange, by the formula of the documents: whole picoseconds, rounded up once."""
    return (messages * int(US) + -(-nbytes * 1000 // GBS)) / 1e6


def all_reduce(size, nbytes):
    """Bytes and time of a ring of cards."""
    carried = 2 * (size - 1) * -(-nbytes // size)
    return carried, time_us(2 * (size - 1), carried)


# By model: rows of the first layer that is divided, how often the cards add up what they have, and the programs around that.
MODELS = {"mlp": (256, 1, 1), "attention": (64, 1, 1), "block": (64, 2, 3)}

# Matrices of each model.
WEIGHTS = {"mlp": 3, "attention": 4, "block": 7}


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_eager(four, name, size):
    rows, sums, _ = MODELS[name]
    carried, us = all_reduce(size, 2 * 12 * 64 * 4)
    for error, found, _, local in four.run(cases.forward, name, size, False):
        assert error < 1e-5 and local == rows // size
        assert found == [("all_reduce", (2, 12, 64), carried, us)] * sums


@pytest.mark.parametrize("size, name", [(2, "mlp"), (4, "mlp"), (2, "attention"), (4, "block")])
def test_compiled(four, name, size):
    _, sums, programs = MODELS[name]
    carried, us = all_reduce(size, 2 * 12 * 64 * 4)
    for error, found, report, _ in four.run(cases.forward, name, size, True):
        assert error < 1e-5
        assert found == report["collectives"] == [("all_reduce", (2, 12, 64), carried, us)] * sums
        assert report["breaks"] == 0 and report["eager"] == []
        assert report["programs"] == programs
        assert report["weights"] >= WEIGHTS[name], "programs write parts of parameters once, in the layout that suits them"
        assert report["latency"] == pytest.approx(report["programs_us"] + sums * us, abs=1e-9)
        line = f"all_reduce of float32 [2, 12, 64] over {size} cards: {carried} bytes, {us:.3f} us"
        assert line in report["text"]
        assert [(c["op"], c["bytes"]) for c in report["dict"]] == [("all_reduce", carried)] * sums
        cell = lambda value: f'data-key="{value}">'
        assert f"{sums} collective" in report["page"] and "all_reduce" in report["page"] and "2×12×64" in report["page"]
        assert all(cell(n) in report["page"] for n in (size, sums, sums * carried)), report["page"]
        waited, took = (float(re.findall(r'data-key="([^"]*)"', report["page"])[k]) for k in (-1, -2))
        assert took == pytest.approx(sums * us) and waited >= 0


def test_weights_that_change(four):
    for before, after in four.run(cases.updated, 2):
        assert before < 1e-5 and after < 1e-5


def test_sixteen_bits(four):
    import torch

    carried, us = all_reduce(4, 2 * 12 * 64 * 2)
    for compiled in (False, True):
        for error, found, _, _ in four.run(cases.forward, "mlp", 4, compiled, torch.float16):
            assert error < 5e-3
            assert found == [("all_reduce", (2, 12, 64), carried, us)]


@pytest.mark.parametrize("size, compiled", [(2, False), (4, False), (4, True)])
def test_sequences(four, size, compiled):
    for error, kinds in four.run(cases.sequence, size, compiled):
        assert error < 1e-5
        assert kinds == ["all_gather", "reduce_scatter"]


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(four, compiled):
    for errors, kinds in four.run(cases.training, 2, compiled):
        assert max(errors.values()) < 1e-5, errors
        # The sum of the results forward, and of the gradients of the input backward.
        assert not compiled or kinds.count("all_reduce") >= 2, kinds


@pytest.mark.parametrize("compiled", [False, True])
def test_llama(four, compiled):
    pytest.importorskip("transformers")
    for error, kinds in four.run(cases.llama, 4, compiled):
        assert error < 1e-4
        assert kinds == ["all_reduce"] * 4 + ["all_gather"]


def test_profile(four):
    carried, us = all_reduce(4, 2 * 12 * 64 * 4)
    for drawn, table, times, transfers in four.run(cases.profiled, 4):
        assert times == [us]
        assert sorted(track for track, _, _ in drawn) == ["link to other cards", "stream 0 (default)"]
        args = next(args for track, _, args in drawn if track.startswith("stream"))
        assert (args["bytes"], args["messages"], args["ranks"], args["simulated duration us"]) == (carried, 6, 4, us)
        assert args["waited us"] >= 0 and args["dtype"] == "float32" and args["size"] == [2, 12, 64]
        assert [(name, count) for name, count, _ in table] == [("all_reduce", 1)]
        assert transfers == 0, "what the host carries for the cards is no transfer"
