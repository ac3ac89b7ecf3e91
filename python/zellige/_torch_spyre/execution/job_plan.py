"""Kernels that are prepared once and launched with tensors: ``_C.prepare_kernel`` and ``_C.launch_jobplan``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import torch

from zellige import DeviceError, SpyreTensorLayout, _native

from . import spyrecode
from .kernel_graph import KernelArgument
from .symbolic_args import SymbolicArg, bound_tensors

# What `async_compile` writes beside the emitted files: the graph of the kernel, and its arguments.
KERNEL_FILE = "kernel.json"
GRAPH_FILE = "graph.json"
ACCEPTED = (
    "a folder of `SpyreAsyncCompile.sdsc`, one of `report.emit(...)` or `ZELLIGE_EMIT` (with graph.json), "
    "or a program of `torch.spyre.last_report().programs`"
)


class JobPlan:
    """A kernel that is ready to be launched: its steps, and the bytes of device memory that it takes for itself."""

    def __init__(self, name: str, steps: Sequence[tuple[str, str]], allocation: int, kernel) -> None:
        self._name, self._steps, self._allocation, self._kernel = name, list(steps), allocation, kernel

    def num_steps(self) -> int:
        """The steps of a launch."""
        return len(self._steps)

    def get_step_type(self, idx: int) -> str:
        """``Compute``, ``HostCompute``, ``H2D`` or ``D2H``."""
        return self._step(idx)[0]

    def get_step_name(self, idx: int) -> str:
        """The name of a step, as the report of the program and the profiler have it."""
        return self._step(idx)[1]

    def get_step_pipeline_barrier(self, idx: int) -> bool:
        """Whether a step waits for those before it: all steps of a stream do."""
        return bool(self._step(idx))

    def job_allocation_size(self) -> int:
        """Bytes of device memory beside the tensors of a launch."""
        return self._allocation

    def launch(self, tensors: Sequence[torch.Tensor]):
        """One run, in the current stream of the card."""
        return self._kernel(tensors)

    def _step(self, idx):
        if not 0 <= idx < len(self._steps):
            raise RuntimeError(f"Step index out of range: {idx} of {len(self._steps)} steps")
        return self._steps[idx]

    def __repr__(self) -> str:
        return f"<JobPlan {self._name} steps={len(self._steps)} job_allocation_size={self._allocation}>"


def prepare_kernel(spyrecode_dir, stream=None, profiler_name: str | None = None) -> JobPlan:
    """A kernel, ready to be launched as often as wanted: of a folder that was emitted here, or of a compiled program.

    A folder of torch-spyre's backend compiler gives a plan whose steps can be listed; its machine code does not run here. Weights
    are loaded by the first launch, so that ``stream`` has nothing to wait for.
    """
    if isinstance(spyrecode_dir, _native.Program):
        program = spyrecode_dir
        return _plan(profiler_name or program.report()["graph"], _GraphKernel(program.graph(), program))
    folder = os.fspath(spyrecode_dir)
    name = profiler_name or os.path.basename(os.path.normpath(folder))
    # torch-spyre's own runner names the folder of the backend compiler inside of the kernel's.
    for place in (folder, os.path.dirname(os.path.normpath(folder))):
        if os.path.exists(os.path.join(place, KERNEL_FILE)):
            return _plan(name, _SpecKernel(_read(place, KERNEL_FILE)))
    if not os.path.isdir(folder):
        raise RuntimeError(f"SpyreCode directory does not exist: {folder}; accepted is {ACCEPTED}")
    if os.path.exists(os.path.join(folder, GRAPH_FILE)):
        return _plan(name, _GraphKernel(json.dumps(_read(folder, GRAPH_FILE))))
    if os.path.exists(os.path.join(folder, spyrecode.FILE)):
        steps, allocation = spyrecode.read_steps(folder)
        return JobPlan(name, steps, allocation, _refuse_machine_code)
    raise RuntimeError(f"spyrecode.json not found in {folder}, nor {GRAPH_FILE}; accepted is {ACCEPTED}")


def launch_jobplan(job_plan: JobPlan, args: Sequence[torch.Tensor], symbolic_args: Sequence[SymbolicArg] = ()):
    """Runs a prepared kernel. ``args`` are its tensors in their order, results included, which are written in place; a plan
    of a whole graph also takes its inputs alone, and gives its results. ``symbolic_args`` says which tensor each argument of
    the kernel is, where they come in another order."""
    tensors = bound_tensors(args, symbolic_args) if symbolic_args else list(args)
    with torch.profiler.record_function(f"launch_jobplan:{job_plan._name}"):
        return job_plan.launch(tensors)


def _refuse_machine_code(_tensors):
    raise DeviceError(f"machine code of torch-spyre's backend compiler, which the simulated card does not run; accepted is {ACCEPTED}")


def _read(folder, name):
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise RuntimeError(f"{path} is no JSON: {error}") from None


def _plan(name, kernel) -> JobPlan:
    program = kernel.program(torch.spyre.current_device())
    steps = [("HostCompute" if s["on_host"] else "Compute", s["name"]) for s in program.report()["steps"] if not s["load"]]
    pool = [b for b in program.report()["buffers"] if b["place"].startswith("pool")]
    return JobPlan(name, steps, max((int(b["place"].split()[1], 0) + b["bytes"] for b in pool), default=0), kernel)


class _Kernel:
    """A graph with its programs, one for every card that it was launched on."""

    def __init__(self, graph: str, program=None) -> None:
        self._graph = graph
        self._programs = {} if program is None else {program.card: program}
        self._loaded: dict = {}

    def program(self, card: int):
        """The program of a card, compiled at its first launch."""
        if card not in self._programs:
            self._programs[card] = _native.Program(self._graph, card, None, None)
        return self._programs[card]

    def loaded(self, card: int, weights: dict):
        """The program of a card with these weights, which are written again where they changed."""
        stamp = [(id(t), *_native.read_write_stamps([t])) for t in weights.values()]
        known = self._loaded.get(card)
        if known is None or known[0] != stamp:
            # The tensors stay alive with the stamp, so that nothing else has their identity.
            known = self._loaded[card] = (stamp, self.program(card).load(weights), list(weights.values()))
        return known[1]


class _GraphKernel(_Kernel):
    """A whole graph: its inputs are the arguments, in its order, and its results may be given behind them."""

    def __init__(self, graph: str, program=None) -> None:
        super().__init__(graph, program)
        doc = json.loads(graph)
        self._inputs, self._results = doc["inputs"], doc["outputs"]

    def __call__(self, tensors: Sequence[torch.Tensor]):
        names = [i["name"] for i in self._inputs]
        results = tensors[len(names) :]
        if len(tensors) < len(names) or len(results) not in (0, len(self._results)):
            raise RuntimeError(
                f"{len(tensors)} tensors: the kernel takes {len(names)} ({', '.join(names)}), and its "
                f"{len(self._results)} results ({', '.join(self._results)}) behind them or none"
            )
        card = card_of(tensors)
        given = {i["name"]: _whole(t, i) for i, t in zip(self._inputs, tensors)}
        weights = {i["name"]: given.pop(i["name"]) for i in self._inputs if i.get("role") == "weight"}
        made = self.loaded(card, weights).run(given, [])
        if not results:
            return made
        for result, value in zip(results, made):
            if result.shape != value.shape or result.dtype != value.dtype:
                raise RuntimeError(f"a result has the size {list(value.shape)} ({value.dtype}), and {list(result.shape)} ({result.dtype}) was given for it")
        for result, value in zip(results, made):
            result.copy_(value)
        return None


class _SpecKernel(_Kernel):
    """A kernel of records of operations: every tensor is an argument, by the place of its elements on the device."""

    def __init__(self, doc: dict) -> None:
        super().__init__(json.dumps(doc["graph"]))
        self._arguments = [_argument(a) for a in doc["arguments"]]
        written = [a for a in self._arguments if a.written]
        self._states = [(a.name, k) for k, a in enumerate(written)]

    def __call__(self, tensors: Sequence[torch.Tensor]):
        if len(tensors) != len(self._arguments):
            names = ", ".join(f"{a.name} ({'written' if a.written else 'read'})" for a in self._arguments)
            raise RuntimeError(f"{len(tensors)} tensors: the kernel takes {len(self._arguments)}: {names}")
        card = card_of(tensors)
        for argument, tensor in zip(self._arguments, tensors):
            if str(tensor.dtype) != f"torch.{argument.dtype}":
                raise RuntimeError(f"{argument.name} is a tensor of {argument.dtype}, not of {tensor.dtype}")
        given = {}
        for argument, tensor in zip(self._arguments, tensors):
            try:
                given[argument.name] = _native.same_memory_in(tensor, argument.layout)
            except DeviceError as error:
                raise RuntimeError(f"{argument.name}: {error}") from None
        self.loaded(card, {}).run(given, self._states)
        torch.autograd.graph.increment_version([t for a, t in zip(self._arguments, tensors) if a.written])


def _argument(entry: dict) -> KernelArgument:
    return KernelArgument(entry["index"], entry["name"], entry["dtype"], SpyreTensorLayout._read(entry["layout"]), entry["written"])


def kernel_document(graph: dict, arguments: Sequence[KernelArgument]) -> dict:
    """What ``KERNEL_FILE`` holds."""
    fields = lambda a: {"index": a.index, "name": a.name, "dtype": a.dtype, "layout": a.layout._whole, "written": a.written}
    return {"graph": graph, "arguments": [fields(a) for a in arguments]}


def card_of(tensors: Sequence[torch.Tensor]) -> int:
    """The card of the tensors of a launch, which are on one."""
    devices = sorted({str(t.device) for t in tensors})
    if len(devices) != 1 or tensors[0].device.type != "spyre":
        raise RuntimeError(f"the tensors of a launch are on {', '.join(devices) or 'no device'}: one card is accepted")
    return tensors[0].device.index


def _whole(tensor, entry):
    if list(tensor.shape) != entry["size"] or str(tensor.dtype) != f"torch.{entry['dtype']}":
        raise RuntimeError(f"{entry['name']} has the size {entry['size']} ({entry['dtype']}), not {list(tensor.shape)} ({tensor.dtype})")
    return tensor if _native.input_form(tensor).is_whole else tensor.contiguous()
