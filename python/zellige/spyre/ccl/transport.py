"""How bytes travel between processes: gloo carries them, and the processes agree on a call before it.

A class of its own, because the collectives are written in terms of these few exchanges and know nothing of gloo.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .. import exchange
from ..exchange import Call, Heard
from .handles import Done


def _explain_gloo_error(error: BaseException, seconds: float) -> str:
    """What gloo's error means."""
    text = str(error).strip().splitlines()
    message = text[0] if text else type(error).__name__
    # Gloo has one exception for everything, so only its text tells a time limit from a lost process.
    low = message.lower()
    if "timed out" in low or "timeout" in low:
        return f"another process did not come within {seconds:g} s (gloo: {message})"
    if any(word in low for word in ("closed", "reset", "broken pipe", "refused", "connect")):
        return f"another process of the group ended, or left it (gloo: {message})"
    return f"gloo: {message}"


class Transport:
    """Exchanges of bytes between all processes of a group, and the call that they are about."""

    def _carry(self, what, options, send):
        """Runs an exchange of gloo; an error names the collective and the ranks."""
        given = getattr(options, "timeout", None)
        asked = given if given is not None and given > timedelta(0) else self._timeout
        try:
            return send(asked).wait()
        except RuntimeError as error:
            raise dist.DistBackendError(
                f"spyreccl: {what} on rank {self.rank()} of {self.size()}: {_explain_gloo_error(error, asked.total_seconds())}"
            ) from error

    def _options(self, kind, timeout, **fields):
        options = kind()
        options.timeout = timeout
        for name, value in fields.items():
            setattr(options, name, value)
        return options

    def _to_all(self, what, flat, options=None):
        """The tensors of all processes, which have the same number of elements."""
        if not flat.numel():
            return [flat] * self.size()
        parts = [torch.empty_like(flat) for _ in range(self.size())]
        bytes_of = [[p.view(torch.uint8) for p in parts]], [flat.view(torch.uint8)]
        self._carry(what, options, lambda t: self._gloo.allgather(*bytes_of, self._options(c10d.AllgatherOptions, t)))
        return parts

    def _to_each(self, what, parts, sizes, options=None):
        """The parts that every process has for this one; ``sizes`` are their numbers of elements."""
        # Gloo takes one buffer for all ranks, so parts are joined unless there is a single one.
        given = torch.cat(parts) if len(parts) > 1 else parts[0].contiguous()
        width = given.element_size()
        taken = torch.empty(sum(sizes), dtype=given.dtype)
        splits = [n * width for n in sizes], [p.numel() * width for p in parts]
        both = taken.view(torch.uint8), given.view(torch.uint8)
        self._carry(what, options, lambda t: self._gloo.alltoall_base(*both, *splits, self._options(c10d.AllToAllOptions, t)))
        return list(taken.split(sizes))

    def _agree(self, call: Call, options=None) -> list[Heard]:
        """Exchanges the headers of a call with the other processes, and refuses calls that do not fit together.

        Without it a process that calls another collective would make gloo wait for ever, or mix up bytes of two calls.
        """
        self._calls += 1
        headers = self._to_all(call.kind, call.header(self._calls), options)
        heard = [Heard(h.tolist(), self.size()) for h in headers]
        exchange.check(heard)
        return heard

    def _done(self, call: Call, heard: list[Heard], result):
        exchange.account(call, self.size(), max(h.bytes for h in heard), max(h.clock for h in heard))
        return Done(result)

    def _call(self, kind, tensor, given, taken, part, **fields) -> Call:
        """The call of a collective; ``part`` is the number of elements that its cost depends on."""
        return Call(kind, tensor.device.index, tensor, given, taken, part * exchange.element_bytes(tensor.dtype), **fields)

    def _all(self, elements):
        """The same number of elements for every rank."""
        return [elements] * self.size()

    def _only(self, rank, elements):
        """Elements for one rank, and none for the others."""
        return [elements if r == rank else 0 for r in range(self.size())]

    def _divides(self, whole, part, what):
        if whole.numel() != part.numel() * self.size() or whole.dtype != part.dtype:
            raise ValueError(
                f"spyreccl: {what} has {list(whole.shape)} of {whole.dtype}, and {self.size()} parts of "
                f"{list(part.shape)} of {part.dtype} do not make it"
            )
