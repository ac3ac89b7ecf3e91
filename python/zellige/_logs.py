"""What the package writes into Python's ``logging``: silent unless the environment asks.

Loggers: ``zellige.compile`` (programs, moves, graph breaks, recompiles) and ``zellige.spyre`` (operators
on the CPU, elements that lose bits). ``logging.getLogger("zellige").setLevel(...)`` asks as well.
"""

from __future__ import annotations

import logging
import os
import warnings

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_OFF = logging.CRITICAL + 1
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Of a long list the report has the rest.
_MOST_LINES = 200

package = logging.getLogger("zellige")
compile = logging.getLogger("zellige.compile")
spyre = logging.getLogger("zellige.spyre")


def _is_on(name: str) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value not in ("", "0", "1", "true", "false", "on", "off"):
        warnings.warn(f"{name}={value!r} is not accepted: 1 or 0; nothing is logged for it", RuntimeWarning, stacklevel=4)
    return value in ("1", "true", "on")


def _level() -> str:
    name = os.environ.get("SPYRE_INDUCTOR_LOG_LEVEL", "").strip() or "INFO"
    if name.upper() in LEVELS:
        return name.upper()
    accepted = ", ".join(LEVELS)
    warnings.warn(f"SPYRE_INDUCTOR_LOG_LEVEL={name!r} is not accepted: {accepted}; INFO is used", RuntimeWarning, stacklevel=4)
    return "INFO"


def _handler() -> logging.Handler:
    path = os.environ.get("SPYRE_LOG_FILE", "").strip()
    if path:
        try:
            return logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            warnings.warn(f"SPYRE_LOG_FILE={path!r} cannot be written ({error}); the log goes to stderr", RuntimeWarning, stacklevel=4)
    return logging.StreamHandler()


def setup() -> None:
    """Reads ``SPYRE_INDUCTOR_LOG``, ``SPYRE_INDUCTOR_LOG_LEVEL``, ``SPYRE_LOG_FILE``, ``TORCH_SPYRE_DEBUG``.

    Where they ask for nothing, a level that the program set before stays.
    """
    debug, on = _is_on("TORCH_SPYRE_DEBUG"), _is_on("SPYRE_INDUCTOR_LOG")
    if not debug and not on:
        if package.level == logging.NOTSET:
            package.setLevel(_OFF)
        return
    handler = _handler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    package.addHandler(handler)
    package.setLevel("DEBUG" if debug else _level())
    # The user's own handlers would say it once more.
    package.propagate = False


def asked(report) -> None:
    """A compilation begins: the breaks, and the failed guards, that led to it."""
    for found in (*report.breaks, *report.recompiles):
        compile.warning("%s", found)


def recompiled(found) -> None:
    """A graph was compiled once more, without PyTorch asking for it."""
    compile.warning("%s", found)


def graph(nodes: int, segments: int) -> None:
    """A graph was divided into what the card takes and the rest."""
    compile.info("graph of %d nodes: %d segments for the card", nodes, segments)


_SOURCES = {"cache": ", with decisions of the cache", "other sizes": ", as for other sizes"}


def program(entry, args, milliseconds: float, why: str | None = None) -> None:
    """A segment became a program, or was refused (``why``)."""
    if why is not None:
        compile.warning("refused by the compiler, run eagerly: %s", why)
        return
    if entry.refused_hints:
        compile.warning("without its hints: %s", entry.refused_hints)
    if not compile.isEnabledFor(logging.INFO):
        return
    told = entry.program.report()
    steps = [s for s in told["steps"] if not s["load"]]
    moves = [s for s in steps if s["is_move"]]
    compile.info(
        "program %s compiled in %.1f ms%s: %d steps of which %d are moves, %.1f us on the card (computed)",
        told["graph"], milliseconds, _SOURCES.get(entry.program.source, ""), len(steps), len(moves), told["latency_us"],
    )
    for step in moves[:_MOST_LINES]:
        compile.info("move %s, %.1f us: %s", step["name"], step["us"], step["why"])
    if compile.isEnabledFor(logging.DEBUG):
        for name, i in (*entry.weights, *entry.inputs):
            compile.debug("input %s: %s %s %s", name, tuple(args[i].shape), str(args[i].dtype).removeprefix("torch."), args[i].device_tensor_layout())
        for buffer in told["buffers"][:_MOST_LINES]:
            compile.debug("buffer %s: %d bytes, %s, %s", buffer["name"], buffer["bytes"], buffer["place"], buffer["layout"])
        for step in steps[:_MOST_LINES]:
            compile.debug("step %s: %s, %.1f us on %d cores, %s", step["name"], step["op"], step["us"], step["cores"], step["bound"])


def fallback(op: str, place: str, nbytes: int, reason: str | None, first: bool) -> None:
    """An operator ran on the CPU: the first time as a warning."""
    level = logging.WARNING if first else logging.DEBUG
    if spyre.isEnabledFor(level):
        spyre.log(level, "fallback of %s at %s, %d bytes moved: %s", op, place, nbytes, reason or "the device has no kernel for it")
