"""Processes of one group of `spyreccl`, each with a card."""

from processes import Processes


class Ranks(Processes):
    """``n`` processes; ``run`` calls a function of a module of tests in each, and returns what they return, by rank."""

    def __init__(self, n, seconds=60, **environment):
        super().__init__(n, seconds, "spyreccl", **environment)

    def run(self, function, *args):
        return super().run(function.__module__, function.__name__, *args)

    def answers(self, function, *args, seconds=None):
        return super().answers(function.__module__, function.__name__, *args, seconds=seconds)
