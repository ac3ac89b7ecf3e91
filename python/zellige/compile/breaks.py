"""Graph breaks: where PyTorch could not go on tracing, why, and what helps."""

from __future__ import annotations

import dataclasses
import logging
import re

_LOGGER = "torch._dynamo.symbolic_convert.__graph_breaks"
# The oldest breaks are forgotten, as a long process may have any number of them.
_MOST = 1000


@dataclasses.dataclass(frozen=True)
class GraphBreak:
    """One place where a graph ended early."""

    at: str
    reason: str
    remedies: tuple[str, ...]

    def __str__(self) -> str:
        remedy = f"; {self.remedies[0]}" if self.remedies else ""
        return f"graph break at {self.at}: {self.reason}{remedy}"


class _Listener(logging.Filter):
    """Takes breaks from the log in which PyTorch writes them, and passes on the lines that the user's settings show."""

    def __init__(self):
        super().__init__()
        self.heard: list[GraphBreak] = []

    def filter(self, record: logging.LogRecord) -> bool:
        from torch._logging._internal import log_state

        self.heard.append(read(record.getMessage()))
        del self.heard[:-_MOST]
        return log_state.is_artifact_enabled("graph_breaks")


def read(message: str) -> GraphBreak:
    """A break from PyTorch's words for it."""
    at = re.search(r"in user code at (\S+)", message)
    # Some messages have an explanation, others only a reason; the explanation is the longer of the two.
    reason = re.search(r"Explanation: (.*)", message) or re.search(r"Reason: (.*)", message)
    hints = [h for h in re.findall(r"Hint: (.*)", message) if "report an issue" not in h]
    return GraphBreak(
        at.group(1) if at else "unknown",
        reason.group(1).strip() if reason else message.splitlines()[0],
        tuple(h.strip() for h in hints),
    )


_LISTENER = _Listener()


def listen():
    """Begins to hear breaks; gives the function that ends it."""
    log = logging.getLogger(_LOGGER)
    before = log.level
    log.setLevel(logging.DEBUG)
    log.addFilter(_LISTENER)

    def stop() -> None:
        log.removeFilter(_LISTENER)
        log.setLevel(before)

    return stop


def heard() -> list[GraphBreak]:
    """The breaks since the last call, oldest first."""
    found, _LISTENER.heard = _LISTENER.heard, []
    return found
