"""Five steps of training on two processes, each with a card: the losses of one process on the CPU, eager and compiled."""

import os

import pytest
import training_cases as cases
from ranks import Ranks


@pytest.fixture(scope="module")
def two():
    ranks = Ranks(2)
    yield ranks
    ranks.close()


ALL = [(split, optimizer, compiled) for split in cases.SPLITS for optimizer in cases.OPTIMIZERS for compiled in (False, True)]
# Every division with the default form of an optimizer; other optimizers where programs hold parts of parameters.
SHORT = [case for case in ALL if case[1] == "adamw"] + [
    ("tp", "sgd", True), ("tp", "momentum", True), ("fsdp2", "adamw one by one", True), ("tp and fsdp2", "momentum", True),
]


@pytest.mark.parametrize("split, optimizer, compiled", ALL if os.environ.get("ZELLIGE_LONG") else SHORT)
def test_losses(two, split, optimizer, compiled):
    want = cases.train_on_the_cpu(optimizer)
    for losses, programs in two.run(cases.train, split, optimizer, compiled):
        assert losses == pytest.approx(want, rel=1e-4), f"{split}, {optimizer}"
        assert (programs > 0) == compiled
