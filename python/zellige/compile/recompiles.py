"""Recompiles: which of PyTorch's guards failed, or which layouts are others, so that something was compiled once more."""

from __future__ import annotations

import dataclasses
import weakref

import torch

from .. import _native

# How many reasons of a function were handed out already.
_seen: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class Recompile:
    """A function that was compiled again. ``guards`` has for each existing graph the reason why it did not fit."""

    at: str
    function: str
    guards: tuple[str, ...]

    def __str__(self) -> str:
        return f"recompiled {self.function} at {self.at}: {'; '.join(self.guards)}"


class KnownLayouts:
    """The layouts that the tensors of a part of a graph had when it was compiled, for every tuple of sizes. PyTorch has
    no guard on layouts: another one makes another program of the same graph."""

    def __init__(self):
        self._known: dict = {}

    def note(self, names, args) -> list[str]:
        """What differs from the last program of these sizes; nothing where there is none."""
        cards = {n: a for n, a in zip(names, args) if isinstance(a, torch.Tensor) and a.device.type == "spyre" and a.numel() > 0}
        sizes = tuple((tuple(a.shape), a.dtype) if isinstance(a, torch.Tensor) else a for a in args)
        now = {name: str(_native.tensor_layout(a)) for name, a in cards.items()}
        before, self._known[sizes] = self._known.get(sizes, now), now
        return [f"{name} was in {before[name]}, and is in {now[name]}" for name in now if before[name] != now[name]]


def guard_of(reason: str) -> str:
    """The guard in PyTorch's words, without the number of the graph and the stack."""
    head, _, text = reason.partition(": ")
    text = text if head.replace("/", "").replace("_", "").isdigit() else reason
    return " ".join(text.partition("\nUser stack trace")[0].split())


def heard() -> list[Recompile]:
    """Why the function that is being compiled now was compiled again; empty at its first time.

    PyTorch writes to its log of recompiles only where a user asked for that log, so what is read here
    is the list of failed guards that it keeps in any case.
    """
    from torch._dynamo.utils import guard_failures
    from torch._guards import CompileContext

    now = CompileContext.current_compile_id()
    if now is None:
        return []
    found = []
    for code, reasons in list(guard_failures.items()):
        before = _seen.get(code, 0)
        # PyTorch forgets them when it is reset.
        fresh = reasons[before if before <= len(reasons) else 0 :]
        fresh = [r for r in fresh if r.startswith(f"{now.frame_id}/")]
        if fresh:
            _seen[code] = len(reasons)
            guards = tuple(dict.fromkeys(guard_of(r) for r in fresh))
            found.append(Recompile(f"{code.co_filename}:{code.co_firstlineno}", code.co_name, guards))
    return found
