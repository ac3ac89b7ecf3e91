"""Errors of exchanges between processes."""


class ReshardError(RuntimeError):
    """A move that the processes of a group gave up together: one refused its arguments, plans differ, or one is gone."""
