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
    said = text[0] if text else type(error).__name__
    low = said.lower()
    if "timed out" in low or "timeout" in low:
        return f"another process did not come within {seconds:g} s (gloo: {said})"
    if any(word in low for word in ("closed", "reset", "broken pipe", "refused", "connect")):
        return f"another process of the group ended, or left it (gloo: {said})"
    return f"gloo: {said}"


class Transport:
    """Exchanges of bytes between all processes of a group, and the call that they are about."""

    def _carry(self, what, options, send):
        """Lets gloo do something; its errors say what it was about."""
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
        """What every process gives; all give the same number of elements."""
        if not flat.numel():
            return [flat] * self.size()
        parts = [torch.empty_like(flat) for _ in range(self.size())]
        bytes_of = [[p.view(torch.uint8) for p in parts]], [flat.view(torch.uint8)]
        self._carry(what, options, lambda t: self._gloo.allgather(*bytes_of, self._options(c10d.AllgatherOptions, t)))
        return parts

    def _to_each(self, what, parts, sizes, options=None):
        """What every process has for this one; ``sizes`` are the elements of each."""
        given = torch.cat(parts) if len(parts) > 1 else parts[0].contiguous()
        width = given.element_size()
        taken = torch.empty(sum(sizes), dtype=given.dtype)
        splits = [n * width for n in sizes], [p.numel() * width for p in parts]
        both = taken.view(torch.uint8), given.view(torch.uint8)
        self._carry(what, options, lambda t: self._gloo.alltoall_base(*both, *splits, self._options(c10d.AllToAllOptions, t)))
        return list(taken.split(sizes))

    def _agree(self, call: Call, options=None) -> list[Heard]:
        """Tells the other processes what this one asks for, and hears what they do."""
        self._calls += 1
        headers = self._to_all(call.kind, call.header(self._calls), options)
        heard = [Heard(h.tolist(), self.size()) for h in headers]
        exchange.check(heard)
        return heard

    def _done(self, call: Call, heard: list[Heard], result):
        exchange.account(call, self.size(), max(h.bytes for h in heard), max(h.clock for h in heard))
        return Done(result)

    def _call(self, kind, tensor, given, taken, part, **fields) -> Call:
        """``part`` is the number of elements that the cost is about."""
        return Call(kind, tensor.device.index, tensor, given, taken, part * exchange.element_bytes(tensor.dtype), **fields)

    def _all(self, n):
        return [n] * self.size()

    def _only(self, rank, n):
        return [n if r == rank else 0 for r in range(self.size())]
