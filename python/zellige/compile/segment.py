"""A part of a graph that runs on the card as one program."""

from __future__ import annotations

import json
import time

import sympy
import torch

from .. import _logs, _native
from ..spyre import dynamic, fallback
from . import artifacts
from .collection import deferred_collection
from .output_views import physical_order
from .graph import Refused, Writer, emit
from .hints import VIEWS
from .moving_views import MovingViews
from .report import Part, place_of
from .recompiles import KnownLayouts, Recompile
from .weights import is_weight


# Tuples of sizes and layouts whose programs stay loaded: a program holds memory of the card, and a loop over ever new
# sizes would otherwise fill it.
_LOADED = 64


class Segment(torch.nn.Module):
    """Compiles when it is called: once for every tuple of sizes and layouts. Where sizes alone are
    others, the decisions of the first program hold for all that follow, and so do its weights."""

    def __init__(self, module: torch.fx.GraphModule, report, states=None, options=None):
        super().__init__()
        self._options = options
        self._module = [module]
        # Outputs by number that are written into an argument.
        self._states: dict[int, int] = states or {}
        self._report = report
        self._part = Part()
        report.parts.append(self._part)
        self._programs: dict = {}
        self._families: dict = {}
        # The graph around operators that were refused, by their names.
        self._split: dict = {}
        self._weights = (None, None)
        self._places = [n for n in module.graph.nodes if n.op == "placeholder"]
        self._layouts = KnownLayouts()
        self._views = MovingViews(self._states.values())

    @torch._disable_dynamo
    def forward(self, *args):
        key = tuple(_key(a) for a in args)
        entry = self._programs.get(key)
        if entry is None:
            args, copied = self._views.copy_moving(args)
            if copied:
                key = tuple(_key(a) for a in args)
                entry = self._programs.get(key)
                self._report.note_copied_views([self._places[i].name for i in copied])
        if entry is None:
            entry = self._programs[key] = self._compile(args)
            if len(self._programs) > _LOADED:
                del self._programs[next(iter(self._programs))]
        if entry.program is None:
            return self._around(entry, args)
        self._report.run(self._part, entry.program)
        return entry.run(args, self._shared)

    def _compile(self, args):
        start = time.perf_counter()
        family = tuple(_family(a) for a in args)
        try:
            with deferred_collection():
                entry = _CompiledSegment(
                    self._module[0], self._places, args, self._states, self._families.get(family), self._options
                )
            artifacts.record(entry.program)
            self._families.setdefault(family, entry.program)
            self._part.add(entry.program)
            self._note_layouts(args)
            for node in entry.copied:
                self._report.eager("a copy of the view", node.name)
            for k in entry.later:
                self._report.eager("aten.copy_.default", f"the view {self._places[entry.later[k]].name}")
            if entry.refused_hints:
                self._report.hints.append(entry.refused_hints)
            _logs.program(entry, args, (time.perf_counter() - start) * 1e3)
        except (Refused, _native.DeviceError) as error:
            _logs.program(None, args, 0.0, why=str(error))
            if self._options is not None and self._options.strict and isinstance(error, _native.DeviceError):
                raise
            # What the compiler refuses still runs, and the report says why: the refused operator alone eagerly, where
            # it is known, and the rest in programs around it.
            self._report.refused[self._module[0].__class__.__name__ + str(len(self._report.refused))] = str(error)
            entry = _CompiledSegment.without_program()
            entry.around = self._without(_refused_node(self._module[0], error))
        self._report.milliseconds += (time.perf_counter() - start) * 1e3
        return entry

    def _note_layouts(self, args) -> None:
        """Reports a program that was compiled only because an input has another layout."""
        changed = self._layouts.note([n.name for n in self._places], args)
        if not changed:
            return
        calls = [n for n in self._module[0].graph.nodes if n.op == "call_function"]
        again = Recompile(place_of(calls[0]) if calls else "", ", ".join(n.name for n in calls[:3]), tuple(changed))
        self._report.recompiles.append(again)
        _logs.recompiled(again)

    def _without(self, refused):
        """The graph with one node beside its programs; with all of them there, where the node is not known. Later
        sizes run in the same."""
        from .backend import programs_of

        if refused in self._split:
            return self._split[refused]
        module = _copied(self._module[0])
        if refused is None:
            for node in module.graph.nodes:
                if node.op == "call_function":
                    self._report.eager(str(node.target), place_of(node))
            self._split[None] = module
            return module
        fused = programs_of(module, self._report, lambda node: node.name != refused, self._options)
        self._report.eager(*next((str(n.target), place_of(n)) for n in self._module[0].graph.nodes if n.name == refused))
        self._split[refused] = fused
        return fused

    def _around(self, entry, args):
        made = entry.around(*args)
        for output, argument in self._states.items():
            args[argument].copy_(made[output] if isinstance(made, (list, tuple)) else made)
        return made

    def _shared(self, stamp):
        """The weights as programs want them, for as long as they do not change."""
        if self._weights[0] != stamp:
            self._weights = (stamp, _native.Weights())
        return self._weights[1]


def _copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The module with a graph of its own, whose nodes have the same names."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)


def _refused_node(module, error) -> str | None:
    """The node of the graph that a refusal is about."""
    # A result of the compiler is named after its node, with a suffix where one node becomes several operations.
    named = error.node if isinstance(error, Refused) else error.refused_result
    names = [n.name for n in module.graph.nodes if n.op == "call_function"]
    fitting = [n for n in names if named is not None and (named == n or named.startswith(n + "."))]
    return max(fitting, key=len) if fitting and len(names) > 1 else None


def _family(value):
    """What programs have in common that differ in sizes alone. A layout of the user's choice is of one
    size."""
    if isinstance(value, torch.Tensor):
        form = _native.input_form(value)
        seen = None if form is None or form.is_whole else tuple(form.stride_order)
        return (value.dtype, value.dim(), _reserved(value), _native.chosen_layout(value), seen, value.device.index, is_weight(value))
    return type(value)


def _key(value):
    if isinstance(value, torch.Tensor):
        # The form has the strides and the offset of a view too: a program reads it where it is.
        form = _native.input_form(value)
        return (value.dtype, tuple(value.shape), form, _reserved(value), value.device.index, is_weight(value))
    return value


def _reserved(tensor):
    """What a program reads instead of a tensor with reserved sizes."""
    full = dynamic.reserved_tensor(tensor)
    return None if full is None else (tuple(full.shape), tuple(dynamic.dynamic_sizes(tensor)), _native.tensor_layout(full))


def _reserved_or_itself(tensor):
    full = dynamic.reserved_tensor(tensor)
    return tensor if full is None else full


# Inputs that are the whole of what is reserved for a tensor, and those that are the storage of a view.
_ALL, _STORAGE = ".all", ".storage"


def _view_storage(writer, node, tensor):
    """A view of its storage, with the strides and the offset that it has in PyTorch."""
    writer.node = node
    view = dict(size=list(tensor.shape), stride=list(tensor.stride()), storage_offset=tensor.storage_offset())
    return writer.op("as_strided", [writer.env[node]], [node.name], **view)


def _slice_reservation(writer, node, tensor):
    """The part of a reservation that its tensor has now; the program slices it out of the reserved memory."""
    writer.node = node
    name = writer.env[node]
    for d in dynamic.dynamic_sizes(tensor):
        name = writer.op("slice", [name], [f"{node.name}.{d}"], dim=d, start=0, end=tensor.shape[d], step=1)
    return name


class _SymbolValues:
    """Sizes that are symbols in the graph, by the tensors that came."""

    def __init__(self, places, args):
        self.values = {}
        compound = []
        for node, arg in zip(places, args):
            value = node.meta.get("val")
            if isinstance(arg, torch.Tensor) and isinstance(value, torch.Tensor):
                pairs = zip(value.shape, arg.shape)
            else:
                pairs = [(value, arg)]
            for size, n in pairs:
                if isinstance(size, torch.SymInt):
                    expression = size.node.expr
                    if expression.is_Symbol:
                        self.values[expression] = sympy.Integer(n)
                    else:
                        compound.append((expression, n))
        for expression, n in compound:
            left = expression.free_symbols - self.values.keys()
            if len(left) == 1 and expression.is_polynomial(*left):
                (symbol,) = left
                found = sympy.solve(expression.xreplace(self.values) - n, symbol)
                if len(found) == 1:
                    self.values[symbol] = found[0]
            # As a part of other sizes, whatever it is made of.
            self.values[expression] = sympy.Integer(n)

    def known(self, size) -> int:
        """A size as a number."""
        if isinstance(size, int):
            return size
        value = size.node.expr.xreplace(self.values)
        if not value.is_Integer:
            raise Refused(f"the size {size.node.expr} is not known")
        return int(value)


def _program(doc, device, like, options):
    """The program of a graph; and why without its hints, where those cannot hold."""
    try:
        return _native.Program(json.dumps(doc), device, like, options), None
    except _native.DeviceError as error:
        if not any([op.pop("split", None) for op in doc["ops"]]):
            raise
        return _native.Program(json.dumps(doc), device, like, options), str(error)


def _in_own_order(writer, node, known):
    """Size and strides of a result that fills its memory in another order than the row-major one. The program
    writes it in that order, and so into memory without gaps."""
    value = node.meta["val"]
    size, stride = [known(s) for s in value.shape], [known(s) for s in value.stride()]
    order = physical_order(size, stride)
    if order is None:
        return None
    writer.node = node
    permuted = writer.op("permute", [writer.env[node]], [node.name + ".ordered"], dims=order)
    writer.env[node] = writer.op("clone", [permuted], [node.name + ".written"])
    return size, stride


def _with_own_memory(writer, nodes, states) -> list[str]:
    """The names of the results. Every result is a tensor of its own for PyTorch, so that an input, a view, and a tensor
    that is returned twice are copied by a step of the program, which the report lists. A state takes any value."""
    shared = {i["name"] for i in writer.doc["inputs"]}
    shared.update(name for op in writer.doc["ops"] if op["op"] in VIEWS for name in op["outputs"])
    names = []
    for k, node in enumerate(nodes):
        name = writer.env[node]
        if k not in states:
            if name in shared:
                writer.node = node
                name = writer.op("clone", [name], [f"{node.name}.result{k}"])
            shared.add(name)
        names.append(name)
    return names


def _host_steps(program):
    """The steps of every run that the host does; the whole report is made only where there are some."""
    return program.data()["fallbacks"] if program.has_host_steps else []


class _CompiledSegment:
    """A program with the names of its inputs."""

    program = None

    @staticmethod
    def without_program():
        return _CompiledSegment.__new__(_CompiledSegment)

    def __init__(self, module, places, args, states, like=None, options=None):
        known = _SymbolValues(places, args).known
        env = {}
        writer = Writer("torch", env, lambda node: [known(s) for s in node.meta["val"].shape])
        self.weights, self.inputs = [], []
        # Views whose storage has no row-major form: they are copied before the program runs.
        self.copied = []
        states = self._split_states(states, args)
        device = None
        for i, (node, arg) in enumerate(zip(places, args)):
            if not isinstance(arg, torch.Tensor):
                env[node] = arg
                continue
            device = arg.device.index if device is None else device
            changes = i in states.values()
            weight = is_weight(arg) and not changes
            (self.weights if weight else self.inputs).append((node.name, i))
            entry = {"name": node.name, "dtype": str(arg.dtype).removeprefix("torch."), "size": list(arg.shape)}
            if weight:
                entry["role"] = "weight"
            else:
                # What changes has to be of the size of its next value.
                full = None if changes else dynamic.reserved_tensor(arg)
                entry["role"] = "state" if changes else "input"
                form = _native.input_form(arg) if full is None else None
                pin = _native.chosen_layout(full) if form is None else form.storage_pin
                if full is not None:
                    entry.update(name=node.name + _ALL, size=list(full.shape))
                elif not form.is_whole and form.storage_size is not None:
                    entry.update(name=node.name + _STORAGE, size=form.storage_size)
                elif not form.is_whole:
                    self.copied.append(node)
                if pin:
                    entry["pin"] = {"layout": pin}
                self.inputs[-1] = (entry["name"], i)
            writer.doc["inputs"].append(entry)
            env[node] = entry["name"]
            if entry["name"].endswith(_ALL):
                env[node] = _slice_reservation(writer, node, arg)
            elif entry["name"].endswith(_STORAGE):
                env[node] = _view_storage(writer, node, arg)
        for node in module.graph.nodes:
            if node.op == "call_function":
                emit(writer, node)
            elif node.op == "output":
                found = node.args[0]
                self.single = isinstance(found, torch.fx.Node)
                flat = [found] if self.single else list(found)
                self.strides = [None if k in states else _in_own_order(writer, o, known) for k, o in enumerate(flat)]
                writer.doc["outputs"] = _with_own_memory(writer, flat, states)
        written = {argument: output for output, argument in states.items()}
        self.states = [(name, written[i]) for name, i in self.inputs if i in written]
        self.changed = sorted(written)
        self.count, self.given = len(flat), [k for k in range(len(flat)) if k not in states]
        if device is None:
            # A graph without tensors as arguments makes its results on the card that they name.
            device = flat[0].meta["val"].device.index
        self.program, self.refused_hints = _program(writer.doc, device or 0, like, options)
        self.loaded, self.stamp = None, None
        self.host_steps = _host_steps(self.program)

    def run(self, args, shared):
        weights = {name: args[i] for name, i in self.weights}
        # PyTorch's version counters are no help here: `.data`, foreach operators and others write without moving them.
        stamp = _native.read_write_stamps(list(weights.values()))
        if self.loaded is None or stamp != self.stamp:
            self.loaded, self.stamp = self.program.load(weights, shared(stamp)), stamp
        out = self.loaded.run({name: self._given(name, args[i]) for name, i in self.inputs}, self.states)
        for step in self.host_steps:
            fallback.record(step["op"], step["bytes"], fallback.LEFT_TO_THE_HOST, step["at"])
        if self.states:
            torch.autograd.graph.increment_version([args[i] for i in self.changed])
            every = [None] * self.count
            for k, made in zip(self.given, out):
                every[k] = made
            out = every
        out = [t if strides is None else _native.as_strided(t, *strides) for t, strides in zip(out, self.strides)]
        for k, i in self.later.items():
            args[i].copy_(out[k])
        return out[0] if self.single else out

    def _split_states(self, states, args):
        """The states that the program writes in place. One that is a view is an input of the program, and its new value
        is copied into it afterwards: `self.later` has those, with the number of the output."""
        self.later = {k: i for k, i in states.items() if not _native.input_form(args[i]).is_whole}
        return {k: i for k, i in states.items() if k not in self.later}

    def _given(self, name, tensor):
        if name.endswith(_STORAGE):
            return _native.row_major_storage(tensor)
        return _reserved_or_itself(tensor) if name.endswith(_ALL) else tensor
