"""Loggers of the compiler, by the variables ``SPYRE_INDUCTOR_LOG``, ``SPYRE_INDUCTOR_LOG_LEVEL`` and ``SPYRE_LOG_FILE``."""

import logging

from zellige import _logs


def is_inductor_logging_enabled() -> bool:
    """Whether the environment, or the program, turns the compiler's log on."""
    return _logs.compile.isEnabledFor(logging.ERROR)


def get_inductor_logger(name: str) -> logging.Logger:
    """A logger for a part of the compiler: it writes where the compiler does, from the same level on."""
    return _logs.compile.getChild(name)
