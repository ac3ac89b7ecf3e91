"""What the compiler did: for reading in a terminal, a notebook, or a program."""

from __future__ import annotations

import dataclasses
import html
import re

from .breaks import GraphBreak

_REPORTS: list[Report] = []


def place_of(node) -> str:
    """File and line of the model's source that a node comes from."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return f"{lines[-1][0]}:{lines[-1][1]}" if lines else "unknown"


@dataclasses.dataclass
class Report:
    """One compilation: programs of the card, operators beside them, graph breaks."""

    programs: list = dataclasses.field(default_factory=list)
    fallbacks: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    breaks: list[GraphBreak] = dataclasses.field(default_factory=list)
    milliseconds: float = 0.0

    def eager(self, op: str, place: str) -> None:
        """An operator that runs beside the programs."""
        self.fallbacks[op, place] = self.fallbacks.get((op, place), 0) + 1

    @property
    def latency_us(self) -> float:
        """Simulated microseconds of one run of all programs."""
        return sum(p.latency_us for p in self.programs)

    @property
    def moves(self) -> list[dict]:
        """Steps that only move elements, with the reason."""
        return [s for p in self.programs for s in p.report()["steps"] if s["is_move"] and not s["load"]]

    @property
    def steps(self) -> list[dict]:
        """All steps of every run."""
        return [s for p in self.programs for s in p.report()["steps"] if not s["load"]]

    def to_dict(self) -> dict:
        """Everything, as plain data."""
        return {
            "latency_us": self.latency_us,
            "programs": [p.report() for p in self.programs],
            "eager": [{"op": op, "at": at, "count": n} for (op, at), n in self.fallbacks.items()],
            "refused": self.refused,
            "graph_breaks": [dataclasses.asdict(b) for b in self.breaks],
            "compile_ms": self.milliseconds,
        }

    def chrome_trace(self, index: int = 0) -> str:
        """One run of a program in simulated time, as a Chrome trace."""
        return self.programs[index].trace()

    def __str__(self) -> str:
        steps = self.steps
        lines = [
            f"{len(self.programs)} programs, {len(steps)} steps of which {len(self.moves)} are moves, "
            f"{self.latency_us:.1f} us on the card (computed), compiled in {self.milliseconds:.0f} ms"
        ]
        for step in sorted(steps, key=lambda s: -s["us"])[:12]:
            why = f"  {step['why']}" if step["why"] else ""
            lines.append(f"  {step['us']:9.1f} us  {step['op']:<20} {step['cores']:>2} cores, {step['bound']}{why}")
        for (op, at), n in self.fallbacks.items():
            lines.append(f"  eager: {op} x{n} at {at}")
        for reason in self.refused.values():
            lines.append(f"  refused by the compiler, run eagerly: {reason}")
        lines.extend(f"  {b}" for b in self.breaks)
        return "\n".join(lines)

    __repr__ = __str__

    def page(self, index: int = 0) -> str:
        """The report of a program as a web page that needs nothing else."""
        return self.programs[index].page()

    def save(self, path, index: int = 0) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.page(index))

    def _repr_html_(self) -> str:
        head = f"<p>{html.escape(str(self).splitlines()[0])}</p>"
        frame = '<iframe style="width:100%;height:600px;border:0" srcdoc="{}"></iframe>'
        eager = "".join(f"<li>{html.escape(op)} x{n}, {html.escape(at)}</li>" for (op, at), n in self.fallbacks.items())
        eager += "".join(f"<li>{html.escape(str(b))}</li>" for b in self.breaks)
        pages = "".join(frame.format(html.escape(p.page(), quote=True)) for p in self.programs[:4])
        return f"{head}{pages}<ul>{eager}</ul>"


def publish(report: Report) -> None:
    """Remembers a report; the last hundred are kept."""
    _REPORTS.append(report)
    del _REPORTS[:-100]


def last_report() -> Report | None:
    """The report of the last compilation; None before the first."""
    return _REPORTS[-1] if _REPORTS else None


def reports() -> list[Report]:
    """The reports of the last compilations, oldest first."""
    return list(_REPORTS)
