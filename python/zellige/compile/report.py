"""What the compiler did: for reading in a terminal, a notebook, or a program."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import sys
import warnings
import weakref

from .. import _logs
from ..spyre import exchange
from .breaks import GraphBreak
from .recompiles import Recompile

_REPORTS: list[Report] = []
# Sizes of one part that a report remembers.
_SIZES = 64


def place_of(node) -> str:
    """File and line of the model's source that a node comes from."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return f"{lines[-1][0]}:{lines[-1][1]}" if lines else "unknown"


@dataclasses.dataclass
class Part:
    """A piece of a graph that is one program at a time: one for each tuple of sizes and layouts that
    came. ``last`` is the one that ran last."""

    programs: list = dataclasses.field(default_factory=list)
    last: object = None

    def add(self, program) -> None:
        """A program of other sizes or layouts. Plans of sizes that came long ago are forgotten."""
        emit_asked(program)
        self.programs.append(program)
        del self.programs[:-_SIZES]
        self.last = program


@dataclasses.dataclass
class Report:
    """One compilation: programs of the card, operators beside them, graph breaks, why it was done again."""

    parts: list[Part] = dataclasses.field(default_factory=list)
    # Operators that run beside the programs, with their places.
    beside: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    breaks: list[GraphBreak] = dataclasses.field(default_factory=list)
    hints: list[str] = dataclasses.field(default_factory=list)
    recompiles: list[Recompile] = dataclasses.field(default_factory=list)
    milliseconds: float = 0.0
    # What each graph exchanged with other processes in its last call, forward before backward.
    exchanged: dict[object, list[exchange.Collective]] = dataclasses.field(default_factory=dict, repr=False)
    # The function that it is a graph of, and the number of the graph there.
    whole: Whole | None = dataclasses.field(default=None, repr=False)
    graphs: int = 1
    # PyTorch's number of the function, or the rest of one behind a break, that it is a graph of.
    frame: object = dataclasses.field(default=None, repr=False)

    def note_copied_views(self, names: list[str]) -> None:
        """Views that were copied before a program ran, because they come at another offset in every call. Each is listed
        once."""
        for name in names:
            self.beside.setdefault(("a copy of the view, which moves from call to call", name), 1)

    def eager(self, op: str, place: str) -> None:
        """An operator that runs beside the programs."""
        _logs.compile.warning("eager: %s at %s", op, place)
        self.beside[op, place] = self.beside.get((op, place), 0) + 1

    @property
    def fallbacks(self) -> dict[tuple[str, str], int]:
        """What the card does not do itself, by operator and place: operators that run beside the programs, and steps of
        the programs of the last call that the host does (under ``ZELLIGE_PROFILE=card``)."""
        counts = dict(self.beside)
        for step in self.steps:
            if step["on_host"]:
                key = step["op"], step["at"] or "unknown"
                counts[key] = counts.get(key, 0) + 1
        return counts

    @property
    def programs(self) -> list:
        """All programs, of all parts and all sizes."""
        return [p for part in self.parts for p in part.programs]

    @property
    def current(self) -> list:
        """The programs of the last call, in the order in which they ran."""
        if self.whole is not None and self.graphs == len(self.whole.graphs):
            return [program for _, _, program in self.whole.ran]
        return [part.last for part in self.parts if part.last is not None]

    def run(self, part: Part, program) -> None:
        """A program of it runs."""
        part.last = program
        if self.whole is not None:
            self.whole.run(self, part, program)

    @contextlib.contextmanager
    def exchanging(self, graph):
        """A graph of it runs, and exchanges tensors with other processes."""
        made: list[exchange.Collective] = []
        with exchange.watched(made):
            yield
        self.exchanged[graph] = made

    @property
    def collectives(self) -> list[exchange.Collective]:
        """What the last call exchanged with other processes, between its programs."""
        return [c for made in self.exchanged.values() for c in made]

    @property
    def latency_us(self) -> float:
        """Simulated microseconds of the programs and the collectives of the last call, with what the host takes to launch
        them (:attr:`launch_us`) and with the steps that the host does. Not part of it are operators that run beside
        the programs, copies of arguments before them, loading weights, and what a card waits for others that come later.

        ``torch.spyre.Event`` reads the card's own clock, which has all of those but the launches."""
        return sum(p.latency_us for p in self.current) + self.collectives_us

    @property
    def launch_us(self) -> float:
        """Simulated microseconds that the host takes for the launches of the last call, which :attr:`latency_us` has
        and the card's own clock has not."""
        return sum(p.report()["launch_us"] for p in self.current)

    @property
    def launches(self) -> int:
        """How often the host launches something in a call like the last one: all steps of the card between two of the
        host are one launch. The first call prepares each of them, later calls prepare nothing."""
        return sum(p.report()["launches"] for p in self.current)

    @property
    def collectives_us(self) -> float:
        """Simulated microseconds of the collectives of the last call."""
        return sum(c.us for c in self.collectives)

    @property
    def moves(self) -> list[dict]:
        """Steps that only move elements, with the reason."""
        return [s for s in self.steps if s["is_move"]]

    @property
    def steps(self) -> list[dict]:
        """All steps of every run."""
        return [s for p in self.current for s in p.report()["steps"] if not s["load"]]

    def to_dict(self) -> dict:
        """Everything, as plain data."""
        return {
            "graphs": self.graphs,
            "latency_us": self.latency_us,
            "launch_us": self.launch_us,
            "launches": self.launches,
            "programs": [p.report() for p in self.programs],
            "collectives": [dataclasses.asdict(c) for c in self.collectives],
            "eager": [{"op": op, "at": at, "count": n} for (op, at), n in self.beside.items()],
            "fallbacks": [{"op": op, "at": at, "count": n} for (op, at), n in self.fallbacks.items()],
            "refused": self.refused,
            "refused_hints": self.hints,
            "graph_breaks": [dataclasses.asdict(b) for b in self.breaks],
            "recompiles": [dataclasses.asdict(r) for r in self.recompiles],
            "compile_ms": self.milliseconds,
        }

    def buffers(self, index: int = 0) -> dict:
        """The buffers of a program by their names, each as a :class:`FixedTiledLayout`."""
        from .tiled import buffers_of

        return buffers_of(self.programs[index])

    def chrome_trace(self, index: int = 0) -> str:
        """One run of a program in simulated time, as a Chrome trace."""
        return self.programs[index].trace()

    def __str__(self) -> str:
        steps, moves = self.steps, sum(s["is_move"] for s in self.steps)
        graphs = f"{_count(self.graphs, 'graph')}, " if self.graphs > 1 else ""
        lines = [
            f"{graphs}{_count(len(self.current), 'program')}, {_count(len(steps), 'step')} of which {moves} are moves, "
            f"{self.latency_us:.1f} us on the card (computed), compiled in {self.milliseconds:.0f} ms{self._sources()}"
        ]
        lines.extend(f"  {found}" for found in (*self.breaks, *self.recompiles))
        for step in sorted(steps, key=lambda s: -s["us"])[:12]:
            why = f"  {step['why']}" if step["why"] else ""
            lines.append(f"  {step['us']:9.1f} us  {step['op']:<20} {step['cores']:>2} cores, {step['bound']}{why}")
        if self.launch_us:
            count = f"{self.launches} launch{'' if self.launches == 1 else 'es'}"
            lines.append(f"  {self.launch_us:9.1f} us  {count} by the host, which events of the card leave out")
        if self.collectives:
            total = sum(c.bytes for c in self.collectives)
            lines.append(f"  {self.collectives_us:9.1f} us  {_count(len(self.collectives), 'collective')}, {total} bytes over the busiest link")
        for found, n in _alike(self.collectives).items():
            lines.append(f"    {found}{f' x{n}' if n > 1 else ''}")
        for (op, at), n in self.beside.items():
            lines.append(f"  eager: {op} x{n} at {at}")
        if any(s["on_host"] for s in steps):
            us = sum(s["us"] for s in steps if s["on_host"])
            lines.append(f"  {us:9.1f} us  {_count(sum(s['on_host'] for s in steps), 'step')} done by the host: {', '.join(sorted({s['op'] for s in steps if s['on_host']}))}")
        for reason in self.refused.values():
            lines.append(f"  refused by the compiler, run eagerly: {reason}")
        lines.extend(f"  without its hints: {reason}" for reason in self.hints)
        return "\n".join(lines)

    __repr__ = __str__

    def _sources(self) -> str:
        """What was not searched for."""
        found = [p.source for p in self.programs]
        origins = {"cache": "with decisions of the cache", "other sizes": "as for other sizes"}
        parts = [f"{found.count(source)} {words}" for source, words in origins.items() if source in found]
        return f" ({', '.join(parts)})" if parts else ""

    def emit(self, folder) -> list[pathlib.Path]:
        """Writes every program as files that other tools read, each into a numbered folder of its own below this one:
        SuperDSC bundle, transfer descriptors, KTIR, host program, report. Nothing that is there is written over.

        Returns the folders, in the order of :attr:`programs`. What a form leaves out is a warning of the logger
        ``zellige.compile`` and is in ``host.json``."""
        return [_emitted(program, folder) for program in self.programs]

    def page(self, index: int = 0) -> str:
        """The report of a program as a web page that needs nothing else, with the collectives of the last call."""
        return self.programs[index].page(self._exchanges())

    def _exchanges(self) -> list[tuple]:
        return [(c.op, c.dtype, c.size, c.ranks, c.messages, c.bytes, c.us, c.waited_us) for c in self.collectives]

    def save(self, path, index: int = 0) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.page(index))

    def _repr_html_(self) -> str:
        import html

        head = f"<p>{html.escape(str(self).splitlines()[0])}</p>"
        frame = '<iframe style="width:100%;height:600px;border:0" srcdoc="{}"></iframe>'
        eager = "".join(f"<li>{html.escape(op)} x{n}, {html.escape(at)}</li>" for (op, at), n in self.beside.items())
        eager += "".join(f"<li>{html.escape(str(b))}</li>" for b in (*self.breaks, *self.recompiles))
        # Collectives are of the whole call: the first page lists them.
        listed = [self._exchanges(), [], [], []]
        pages = "".join(frame.format(html.escape(p.page(c), quote=True)) for p, c in zip(self.current, listed))
        return f"{head}{pages}<ul>{eager}</ul>"


def _emitted(program, folder) -> pathlib.Path:
    made, left_out = program.emit(folder)
    for form, step, reason in left_out:
        _logs.compile.warning("emit: %s is not in %s: %s", step, form, reason)
    return pathlib.Path(made)


def emit_asked(program) -> None:
    """Writes a program where ``ZELLIGE_EMIT`` names a folder. One that cannot be written costs a warning, not the
    program."""
    folder = os.environ.get("ZELLIGE_EMIT", "").strip()
    if not folder:
        return
    try:
        _emitted(program, folder)
    except OSError as error:
        warnings.warn(f"ZELLIGE_EMIT={folder!r}: nothing is written for this graph: {error}", RuntimeWarning, stacklevel=2)


def _alike(collectives: list[exchange.Collective]) -> dict[str, int]:
    """Collectives that differ in nothing but their time, once, with how many there are."""
    counts: dict[str, int] = {}
    for collective in collectives:
        counts[str(collective)] = counts.get(str(collective), 0) + 1
    return counts


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


class Whole:
    """A compiled function: its graphs in the order in which they were compiled, and what ran in its last call."""

    def __init__(self):
        self.graphs: list[Report] = []
        self.names: set = set()
        self.ran: list = []

    def run(self, graph: Report, part: Part, program) -> None:
        if self.ran:
            # A call begins where the one before began: with the same part, or another graph of the same frame.
            first, begin, _ = self.ran[0]
            if part is begin or (graph is not first and graph.frame == first.frame):
                self.ran.clear()
        self.ran.append((graph, part, program))
        del self.ran[:-_RUNS]

    def report(self) -> Report:
        """One report of all graphs."""
        if len(self.graphs) == 1:
            return self.graphs[0]
        made = Report(whole=self, graphs=len(self.graphs))
        for graph in self.graphs:
            made.parts += graph.parts
            made.exchanged.update(graph.exchanged)
            made.breaks += graph.breaks
            made.hints += graph.hints
            made.recompiles += graph.recompiles
            made.milliseconds += graph.milliseconds
            made.refused.update({f"{k} of graph {len(made.refused)}": v for k, v in graph.refused.items()})
            for key, n in graph.beside.items():
                made.beside[key] = made.beside.get(key, 0) + n
        return made


# Programs of one call that are remembered.
_RUNS = 4096
# By the object that `torch.compile` made; its graphs hold what runs, so these live as long as it does.
_WHOLES: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _compiled_function():
    """What `torch.compile` made of the function whose graph is being compiled: its outermost call that runs now."""
    frame, found = sys._getframe(1), None
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper" and frame.f_code.co_filename.endswith("eval_frame.py"):
            found = frame.f_locals.get("self", found)
        frame = frame.f_back
    return found


def publish(report: Report) -> None:
    """Remembers a report of a graph; the last hundred are kept."""
    _REPORTS.append(report)
    del _REPORTS[:-100]
    function = _compiled_function()
    if function is None:
        return
    from torch._guards import CompileContext

    name = CompileContext.current_compile_id()
    whole = _WHOLES.get(function)
    if whole is None or name in whole.names:
        # PyTorch counts anew when it is reset: what it compiled before is gone.
        whole = _WHOLES[function] = Whole()
    whole.names.add(name)
    whole.graphs.append(report)
    report.frame = getattr(name, "frame_id", None)
    report.whole = whole


def last_report() -> Report | None:
    """The report of the function that was compiled last, with all its graphs; None before the first."""
    if not _REPORTS:
        return None
    last = _REPORTS[-1]
    return last if last.whole is None else last.whole.report()


def reports() -> list[Report]:
    """The reports of the graphs that were compiled last, oldest first."""
    return list(_REPORTS)
