"""Tile kernels (KTIR) at native speed.

>>> import numpy as np
>>> from zellige import ktir
>>> module = ktir.load('''func.func @double(%x: index) {
...   %c0 = arith.constant 0 : index
...   %v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] : memref<4xf16>
...   %t = ktdp.construct_access_tile %v[%c0] : memref<4xf16> -> !ktdp.access_tile<4xindex>
...   %a = ktdp.load %t : !ktdp.access_tile<4xindex> -> tensor<4xf16>
...   %b = arith.addf %a, %a : tensor<4xf16>
...   ktdp.store %b, %t : tensor<4xf16>, !ktdp.access_tile<4xindex>
...   return
... }''')
>>> module.arguments("double")
['x']
>>> module["double"](x=np.arange(4, dtype=np.float16))["x"]
array([0., 2., 4., 6.], dtype=float16)

``KTIRInterpreter``, ``HardwareConfig`` and ``LatencyReport`` have the names and the results of the Python interpreter
ktir-cpu; its way with accesses beyond a view and with undeclared arguments comes with ``compat=True``, which
``KTIRInterpreter`` sets.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

import numpy as np

from ._native import KtirModule as _NativeModule

__all__ = [
    "ExecutionModel",
    "HardwareConfig",
    "KTIRInterpreter",
    "Kernel",
    "LatencyReport",
    "Module",
    "load",
]

_ELEMENTS = {
    "float16": "f16",
    "float32": "f32",
    "bool": "i1",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
}


def _to_array(name, value):
    """(element type, shape, bytes, function that makes the result) of a numpy or torch array."""
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        import torch

        tensor = value.detach().cpu().contiguous()
        if tensor.dtype == torch.bfloat16:
            array = tensor.view(torch.int16).numpy()

            def back(data):
                return torch.from_numpy(data).view(torch.bfloat16)

            return "bf16", list(array.shape), array.tobytes(), array.dtype, back
        array = tensor.numpy()
        back = torch.from_numpy
    else:
        array = np.asarray(value)

        def back(data):
            return data

    elem = _ELEMENTS.get(array.dtype.name)
    if elem is None:
        known = ", ".join(_ELEMENTS)
        raise TypeError(f"{name}: kernels take arrays of {known}, not of {array.dtype.name}")
    little = array.dtype.newbyteorder("<")
    return elem, list(array.shape), array.astype(little, copy=False).tobytes(), little, back


@dataclass
class ExecutionModel:
    """How the parts of a core's time overlap: "serial", "overlapped" or "overlapped_3way"."""

    pipeline: str = "serial"


@dataclass
class HardwareConfig:
    """Figures of the emulator's latency model."""

    num_cores: int = 32
    clock_ghz: float = 1.0
    hbm_bandwidth_tb_s: float = 0.128
    ring_bandwidth_tb_s: float = 0.064
    simd_elements_per_cycle: int = 64
    systolic_rows: int = 8
    transcendental_penalty: int = 4
    lx_size_mb: int = 2

    @property
    def systolic_flops_per_cycle(self):
        """FLOP of a core's matrix unit in a cycle."""
        return 2 * self.simd_elements_per_cycle * self.systolic_rows

    def to_preset(self):
        """The figures as a hardware preset of zellige."""

        def number(value):
            return int(value) if float(value).is_integer() else f"{value:.12f}".rstrip("0")

        ring = self.ring_bandwidth_tb_s * 1000 / self.clock_ghz
        rows = [
            ("cores", [("count", self.num_cores, "cores"), ("clock", self.clock_ghz, "GHz")]),
            ("pt", [("flops", self.systolic_flops_per_cycle, "FLOP/cycle/core")]),
            (
                "sfu",
                [
                    ("lanes", self.simd_elements_per_cycle, "elements/cycle/core"),
                    ("transcendental", self.transcendental_penalty, "times a plain operation"),
                ],
            ),
            (
                "memory",
                [
                    ("peak", self.hbm_bandwidth_tb_s * 1000, "GB/s"),
                    ("granule", 128, "B"),
                    ("segments", 8, "segments"),
                    ("segment", 16, "GiB"),
                    ("span", 256, "MiB"),
                ],
            ),
            ("lx", [("size", self.lx_size_mb, "MiB/core")]),
            ("ring", [("bandwidth", ring, "B/cycle")]),
            ("host", [("link", 63, "GB/s")]),
        ]
        lines = ['name = "ktir"', 'about = "figures given in Python"', 'model = "ktir"']
        for section, figures in rows:
            lines.append(f"[{section}]")
            for name, value, unit in figures:
                lines.append(
                    f'{name} = {{ value = {number(value)}, unit = "{unit}", source = "HardwareConfig" }}'
                )
        return "\n".join(lines) + "\n"


@dataclass
class LatencyReport:
    """What a run would take on the modelled hardware, in cycles."""

    data: dict
    config: HardwareConfig = field(default_factory=HardwareConfig)

    @property
    def kernel_cycles(self):
        """Cycles of the slowest core, with their fraction."""
        return self.data["exact_cycles"]

    @property
    def kernel_time_us(self):
        """The same in microseconds."""
        return self.kernel_cycles / (self.config.clock_ghz * 1000)

    @property
    def bottleneck(self):
        """What takes most of the slowest core's cycles: "compute", "memory", "comm" or "none"."""
        core = self.data["critical_core"]
        if core is None:
            return "none"
        parts = self.data["cores"][core]
        return max(("compute", "memory", "comm"), key=lambda name: parts[name])

    def per_core_summary(self):
        """The cycles of each core."""
        return [
            {
                "core_id": i,
                "compute_cycles": c["compute"],
                "memory_cycles": c["memory"],
                "comm_cycles": c["comm"],
                "total_cycles": c["total"],
            }
            for i, c in enumerate(self.data["cores"])
        ]

    def by_category(self):
        """The cycles of all cores together by what they were spent on."""
        out = {}
        for core in self.data["cores"]:
            for name, cycles in core.get("by_category", {}).items():
                out[name] = out.get(name, 0.0) + cycles
        return out

    def roofline(self):
        """Operations per byte, and how near the whole chip comes to its ceilings."""
        return dict(self.data["roofline"])

    def summary_dict(self):
        """Everything above as a dictionary."""
        return {
            "kernel_cycles": self.kernel_cycles,
            "kernel_time_us": self.kernel_time_us,
            "bottleneck": self.bottleneck,
            "grid_cores": len(self.data["cores"]),
            "num_cores": self.config.num_cores,
            "per_core": self.per_core_summary(),
        }

    def __str__(self):
        lines = [self.data["text"], f"{'core':>6} {'compute':>12} {'memory':>12} {'comm':>12} {'total':>12}"]
        for c in self.per_core_summary():
            lines.append(
                f"{c['core_id']:>6} {c['compute_cycles']:>12.1f} {c['memory_cycles']:>12.1f} "
                f"{c['comm_cycles']:>12.1f} {c['total_cycles']:>12.1f}"
            )
        for name, cycles in sorted(self.by_category().items()):
            lines.append(f"{name:>16}: {cycles:.1f} cycles of all cores")
        for name, value in self.roofline().items():
            lines.append(f"{name:>18}: {value:.4g}")
        return "\n".join(lines)


class Kernel:
    """A kernel of a module: call it with its arguments by name."""

    def __init__(self, module, name):
        self._module, self.name = module, name
        self.report = None

    def __call__(self, **arguments):
        """Run it; returns every array as the kernel left it. The latency report is ``kernel.report``."""
        out, self.report = self._module.run(self.name, **arguments)
        return out


class Module:
    """Kernels that were read from a text."""

    def __init__(self, native):
        self._native = native

    def __getitem__(self, name):
        if name not in self._native.functions():
            known = ", ".join(self._native.functions())
            raise KeyError(f"there is no kernel {name!r}; there are {known}")
        return Kernel(self, name)

    def kernels(self):
        """The names of its functions."""
        return self._native.functions()

    def arguments(self, kernel):
        """The names of a function's arguments, in their order."""
        return [name for name, _ in self._native.arguments(kernel)]

    def sizes(self, kernel):
        """Shape and dtype of the arrays that the kernel's views describe, by the names of arguments."""
        return {
            name: {"shape": tuple(shape), "dtype": elem}
            for name, shape, elem in self._native.sizes(kernel)
        }

    def grid(self, kernel):
        """The grid of cores."""
        return tuple(self._native.grid(kernel))

    def run(
        self,
        kernel,
        *,
        hardware="ktir",
        model=None,
        compat=False,
        threads=None,
        **arguments,
    ):
        """Run a kernel: (arrays by name, latency report)."""
        config = hardware if isinstance(hardware, HardwareConfig) else HardwareConfig()
        preset = hardware.to_preset() if isinstance(hardware, HardwareConfig) else hardware
        pipeline = (model or ExecutionModel()).pipeline
        arrays, scalars, made = [], [], {}
        for name, value in arguments.items():
            if hasattr(value, "shape") and getattr(value, "shape", ()) != ():
                elem, shape, data, dtype, back = _to_array(name, value)
                arrays.append((name, elem, shape, data))
                made[name] = (shape, dtype, back)
            else:
                scalars.append((name, value.item() if hasattr(value, "item") else value))
        out, report = self._native.run(
            kernel, arrays, scalars, preset, pipeline, compat, threads
        )
        results = {}
        for name, (shape, dtype, back) in made.items():
            results[name] = back(np.frombuffer(out[name], dtype=dtype).reshape(shape))
        return results, LatencyReport(json.loads(report), config)


def load(source):
    """Read a module from a text or from a file."""
    text = os.fspath(source)
    if "\n" not in text and not text.lstrip().startswith(("module", "func.func")):
        with open(text, encoding="utf-8") as file:
            text = file.read()
    return Module(_NativeModule(text))


class KTIRInterpreter:
    """The interface of ktir-cpu's interpreter."""

    def __init__(self, latency_config=None, trace_latency=False, parser=None):
        del parser, trace_latency
        self._config = latency_config
        self._report = None
        self.module = None

    def load(self, ktir_source):
        """Read a text or a file."""
        self.module = load(ktir_source)

    def _loaded(self):
        if self.module is None:
            raise RuntimeError("No module loaded. Call load() first.")
        return self.module

    def arg_names(self, func_name):
        """The names of a function's arguments."""
        return self._loaded().arguments(func_name)

    def tensor_input_output_sizes(self, func_name):
        """Shape and dtype of each array argument."""
        return self._loaded().sizes(func_name)

    def execute_function(self, func_name, **kwargs):
        """Run a function; returns its arrays."""
        hardware = self._config or HardwareConfig()
        if not isinstance(hardware, HardwareConfig):
            names = HardwareConfig.__dataclass_fields__
            hardware = HardwareConfig(**{n: getattr(hardware, n) for n in names})
        results, self._report = self._loaded().run(
            func_name, hardware=hardware, compat=True, **kwargs
        )
        return results

    def get_latency_report(self):
        """The report of the last run; None without a ``latency_config``."""
        return self._report if self._config is not None else None
