"""Streams and events. Work runs at once on the host; streams order it in simulated time."""

from __future__ import annotations

import contextlib

import torch

from .. import _native


def _index(device) -> int:
    from .device import index_of

    return index_of(device)


class Stream(torch.Stream):
    """A queue of a card: 0 is the default, 1 to 32 have low priority, 33 to 64 high."""

    _next = {0: 0, -1: 0}

    def __new__(cls, device=None, priority: int = 0, *, stream_id: int | None = None):
        if stream_id is None:
            level = -1 if priority < 0 else 0
            taken = Stream._next[level]
            Stream._next[level] = (taken + 1) % 32
            stream_id = taken + (33 if level else 1)
        kind = int(torch._C._autograd.DeviceType.PrivateUse1)
        return super().__new__(cls, stream_id=stream_id, device_index=_index(device), device_type=kind)

    def __init__(self, device=None, priority: int = 0, *, stream_id: int | None = None):
        self.priority = -1 if self.stream_id > 32 else 0

    def synchronize(self) -> None:
        """Waits for its work; raises what went wrong in it."""
        _native.synchronize(self.device_index, self.stream_id)

    def query(self) -> bool:
        """Whether its work is done."""
        return self.record_event().query()

    def record_event(self, event: Event | None = None) -> Event:
        """The event that everything submitted so far is done."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Later work waits for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Later work waits for what the other stream has to do now."""
        self.wait_event(stream.record_event())

    def __eq__(self, other) -> bool:
        return (
            isinstance(other, Stream)
            and (self.device_index, self.stream_id) == (other.device_index, other.stream_id)
        )

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.spyre.Stream device=spyre:{self.device_index} id={self.stream_id}>"

    def __enter__(self):
        self._before = current_stream(self.device_index)
        set_stream(self)
        return self

    def __exit__(self, *_):
        set_stream(self._before)


class Event:
    """A moment of a stream, in simulated time."""

    def __init__(self, enable_timing: bool = True, blocking: bool = False, interprocess: bool = False):
        self._event = None

    def record(self, stream: Stream | None = None) -> None:
        """Marks the end of what the stream has to do now."""
        stream = current_stream() if stream is None else stream
        self._event = _native.record_event(stream.device_index, stream.stream_id)

    def wait(self, stream: Stream | None = None) -> None:
        """Later work of the stream waits for this event."""
        stream = current_stream() if stream is None else stream
        if self._event is not None:
            _native.wait_event(stream.device_index, stream.stream_id, self._event)

    def query(self) -> bool:
        """Whether everything before it is done."""
        return self._event is None or self._event.query()

    def synchronize(self) -> None:
        """Waits for everything before it."""
        if self._event is not None:
            self._event.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Simulated milliseconds from this event to a later one, on the card's own clock: what its cores do, transfers,
        exchanges with other cards, and round trips to the host. What the host takes to launch the steps of a compiled
        program is not part of it; ``report.launch_us`` has that, and ``report.latency_us`` includes it."""
        if self._event is None or end._event is None:
            raise RuntimeError("both events must be recorded before their distance is known")
        return self._event.elapsed_time(end._event)


def current_stream(device=None) -> Stream:
    """The stream that this thread submits to."""
    index = _index(device)
    return Stream(index, stream_id=_native.current_stream(index))


def default_stream(device=None) -> Stream:
    """Stream 0 of a card."""
    return Stream(device, stream_id=0)


def set_stream(stream: Stream) -> None:
    """This thread submits to that stream from now on."""
    _native.set_stream(stream.device_index, stream.stream_id)


def stream(stream: Stream | None):
    """``with torch.spyre.stream(s): ...`` submits to ``s``."""
    return contextlib.nullcontext() if stream is None else stream
