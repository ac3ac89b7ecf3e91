"""Processes of one group of `spyreccl`, each with a card."""

from processes import Processes


class Ranks(Processes):
    def __init__(self, n, seconds=60, **environment):
        super().__init__(n, seconds, "spyreccl", **environment)
