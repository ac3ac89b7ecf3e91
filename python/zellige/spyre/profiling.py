"""``torch.profiler`` sees the card: what it did, in simulated time.

PyTorch's profiler takes events of a device from a C++ class alone, so its Python class is
extended: a profile that asks for a device (the default does) records the cards while it runs, its trace
gets a process for each card, and its tables the card's time. A profile in which no card did anything is
what PyTorch made of it, byte by byte.

A card's clock is not the host's. In a trace its first event is placed at the beginning of the profile, and all
others as far from it as they are on the card; ``simulated us`` is the moment on the card's own clock,
that of ``torch.spyre.Event``.
"""

from __future__ import annotations

import gzip
import json
import os
import time
import warnings
import weakref

from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from .. import _native
from .fallback import _place as place

# Events of a card that a profile keeps, each about 650 bytes. An operation on all cores is 33, and one
# without them, as the later ones of a long profile are, is 1.
_MOST_EVENTS = 200_000
# Above all process numbers of the host, and below the ones that PyTorch uses to sort to the end.
_FIRST_PROCESS = 0x1000_0000
_STREAMS = 1

_last: dict[int, _native.Recorded] = {}
_running: weakref.WeakSet[_Window] = weakref.WeakSet()


class _Window:
    """What the cards do from the start of a profile to its end."""

    def __init__(self):
        self._key: int | None = None
        self.begin_ns = time.time_ns()
        self.cards: list[tuple[int, _native.Recorded]] = []
        # Whether PyTorch began another profile before this one was over.
        self.is_cancelled = False
        _running.add(self)
        self._key = _native.start_recording(_limit())

    def stop(self) -> None:
        """Ends it; more than once does nothing."""
        key, self._key = self._key, None
        if key is None:
            return
        _running.discard(self)
        self.cards = _native.stop_recording(key)
        _last.update(self.cards)
        for index, recorded in self.cards:
            if recorded.dropped:
                text = (
                    f"the profile has {len(recorded)} events of spyre:{index} and not {recorded.dropped} later ones, "
                    "those of cores first: profile less at once, or set ZELLIGE_TRACE=<events> for more"
                )
                warnings.warn_explicit(text, UserWarning, *place())

    def __del__(self):
        # A profile that was started and thrown away.
        if self._key is not None:
            _native.stop_recording(self._key)


def _limit() -> int:
    text = os.environ.get("ZELLIGE_TRACE", "").strip()
    return int(text) if text.isdigit() and int(text) else _MOST_EVENTS


def recorded(index: int) -> str | None:
    """The trace of a card during the last profile in which it did something."""
    found = _last.get(index)
    return None if found is None else found.trace()


def _is_launch(event: dict) -> bool:
    """Whether an event is an operation of a stream; the tracks of the cores repeat it."""
    return event["ph"] == "X" and event["pid"] % 2 == _STREAMS


def launchers(launches, spans) -> list:
    """For each launch, a thread and a moment, the innermost span around it: the one of a thread, a
    start, an end and a value that starts last. None where there is none."""
    by_thread: dict = {}
    for thread, start, end, value in spans:
        by_thread.setdefault(thread, []).append((start, -end, value))
    found = [None] * len(launches)
    for thread, own in by_thread.items():
        own.sort(key=lambda span: span[:2])
        order = sorted((at, i) for i, (t, at) in enumerate(launches) if t == thread)
        around, next_span = [], 0
        for at, i in order:
            while next_span < len(own) and own[next_span][0] <= at:
                around.append(own[next_span])
                next_span += 1
            # The spans of a thread are nested, so one that is over here contains no later launch.
            while around and -around[-1][1] < at:
                around.pop()
            found[i] = around[-1][2] if around else None
    return found


def _attach(events: list, window: _Window, trace_start_ns: int, use_device: str) -> None:
    """Adds the card's operations to a profile's events, and their time to the operators that asked."""
    spans = [
        (e.device_resource_id, e.time_range.start, e.time_range.end, e)
        for e in events
        if e.device_type == DeviceType.CPU and not e.is_async and not e.is_python_function
    ]
    for index, recorded in window.cards:
        launches = recorded.launches()
        at = [(thread, (ns - trace_start_ns) / 1e3) for *_, ns, thread in launches]
        shift = (window.begin_ns - trace_start_ns) / 1e3 - recorded.begin_us
        for (name, stream, start, duration, *_), by in zip(launches, launchers(at, spans)):
            if by is not None:
                by.append_kernel(name, index, duration)
            events.append(
                FunctionEvent(
                    id=by.id if by is not None else 0,
                    name=name,
                    trace_name=name,
                    overload_name="",
                    thread=stream,
                    start_us=start + shift,
                    end_us=start + shift + duration,
                    use_device=use_device,
                    device_type=DeviceType.PrivateUse1,
                    device_index=index,
                    device_resource_id=stream,
                    input_shapes=[],
                    stack=[],
                    linked_correlation_id=by.id if by is not None else 0,
                )
            )


def _picoseconds(microseconds: float) -> int:
    return round(microseconds * 1e6)


def _merged(page: dict, window: _Window) -> list[dict]:
    """The cards' events for a trace of PyTorch: own processes, times from the start of the profile on."""
    base_ns = page.get("baseTimeNanoseconds", 0)
    spans = [
        (e["tid"], e["ts"], e["ts"] + e["dur"], e)
        for e in page["traceEvents"]
        if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")
    ]
    out, number = [], 0
    for index, recorded in window.cards:
        trace = json.loads(recorded.trace())
        origin = _picoseconds(recorded.begin_us)
        launched = [e for e in trace["traceEvents"] if _is_launch(e)]
        at = [(e["args"]["host thread"], (e["args"]["host ns"] - base_ns) / 1e3) for e in launched]
        by = {id(e): span for e, span in zip(launched, launchers(at, spans))}
        for event in trace["traceEvents"]:
            pid = _FIRST_PROCESS + event["pid"]
            if event["ph"] == "M":
                args = dict(event["args"])
                if event["name"] == "process_name":
                    args["name"] = f"spyre:{index} (simulated time): {args['name'].partition(': ')[2]}"
                elif event["name"] == "process_sort_index":
                    args["sort_index"] = pid
                out.append({**event, "pid": pid, "args": args})
                continue
            args = {k: v for k, v in event["args"].items() if not k.startswith("host ")}
            # Start and end are rounded down to nanoseconds alike, so that neighbouring events still touch.
            start = _picoseconds(event["ts"]) - origin
            times = {"ts": (window.begin_ns - base_ns + start // 1000) / 1e3}
            if event["ph"] == "X":
                args["simulated us"], args["simulated duration us"] = event["ts"], event["dur"]
                times["dur"] = ((start + _picoseconds(event["dur"])) // 1000 - start // 1000) / 1e3
            cat = "spyre"
            if _is_launch(event):
                cat, number = _category(event["name"]), number + 1
                args["correlation"] = number
                out.append(_call(event, base_ns, number))
            span = by.get(id(event))
            if span is not None:
                args["launched by"] = span["name"]
                if "External id" in span.get("args", {}):
                    args["External id"] = span["args"]["External id"]
            out.append({**event, **times, "cat": cat, "pid": pid, "args": args})
    return out


def _category(name: str) -> str:
    """The category that PyTorch's profiler gives such an event of a device."""
    if name in ("upload", "download", "copy", "restickify", "move"):
        return "gpu_memcpy"
    return "gpu_memset" if name == "fill" else "kernel"


def _call(event: dict, base_ns: int, number: int) -> dict:
    """The host's side of a launch: tools find the operator that launched it by the number of both."""
    given = event["args"]
    return {
        "ph": "X", "cat": "privateuse1_runtime", "name": f"launch {event['name']}", "pid": os.getpid(),
        "tid": given["host thread"], "ts": (given["host ns"] - base_ns) / 1e3, "dur": 0.001,
        "args": {"correlation": number, "cbid": 0},
    }


def _add_to(path: str, window: _Window) -> None:
    """Writes the cards' events into a trace that PyTorch wrote."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        page = json.load(file)
    page["traceEvents"].extend(_merged(page, window))
    page["spyre"] = {
        "clock": "simulated: the first event of a card stands where the profile begins",
        "dropped_events": {f"spyre:{index}": recorded.dropped for index, recorded in window.cards},
    }
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps(page))


def profile(original: type) -> type:
    """PyTorch's class of profiles, extended by what cards do."""

    class profile(original):
        __doc__ = original.__doc__
        _spyre: _Window | None = None

        def __init__(self, *args, **kwargs):
            if kwargs.get("use_device") == "spyre":
                # Without it PyTorch would ask C++ for the time of every operator.
                kwargs["use_kineto"] = True
            super().__init__(*args, **kwargs)

        def _start_trace(self):
            super()._start_trace()
            for other in tuple(_running):
                other.is_cancelled = True
            if self.use_device is not None:
                self._spyre = _Window()

        def __exit__(self, *args):
            try:
                # Events that are added up over cycles are read before the original is over.
                if self._spyre is not None:
                    self._spyre.stop()
            finally:
                out = super().__exit__(*args)
            return out

        def _parse_kineto_results(self, result, *args, **kwargs):
            events = super()._parse_kineto_results(result, *args, **kwargs)
            window = self._spyre
            if window is not None and window.cards and self.use_device == "spyre":
                _attach(events, window, result.trace_start_ns(), self.use_device)
                events.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
            return events

        def export_chrome_trace(self, path, *args, **kwargs):
            window = self._spyre
            over = window is not None and self.kineto_results is not None
            if over and (window.is_cancelled or not self.kineto_results.trace_start_ns()):
                # PyTorch would read a trace that is not there.
                raise RuntimeError(
                    "PyTorch cancelled this profile, or ended it twice, and has no trace of it: it takes one profile at a time"
                )
            out = super().export_chrome_trace(path, *args, **kwargs)
            if window is not None and window.cards:
                _add_to(os.fspath(path), window)
            return out

    profile.__module__, profile.__qualname__ = original.__module__, original.__qualname__
    return profile
