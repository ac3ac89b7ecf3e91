"""Runners: what a compiled kernel is to who calls it."""

from __future__ import annotations

import os

import torch

from .._inductor.logging_utils import get_inductor_logger
from .job_plan import JobPlan, launch_jobplan, prepare_kernel
from .symbolic_args import SymbolicArg

logger = get_inductor_logger("kernel_runner")


class SpyreUnimplementedRunner:
    """A kernel with an operation that the device has no function for: it raises when it is run."""

    def __init__(self, name: str, op: str) -> None:
        self.kernel_name, self.op = name, op

    def run(self, *args, **kw_args):
        """Raises."""
        raise RuntimeError(f"the kernel {self.kernel_name} has the unimplemented operation {self.op}: the device has no function for it")


class SpyreSDSCKernelRunner:
    """A kernel in a folder. It is prepared when it is first run, and a pickle of it holds the name and the folder alone."""

    def __init__(self, name: str, code_dir: str) -> None:
        self.kernel_name, self.code_dir = name, code_dir
        self._jobplan: JobPlan | None = None

    def __getstate__(self):
        return {"kernel_name": self.kernel_name, "code_dir": self.code_dir, "_jobplan": None}

    @property
    def jobplan(self) -> JobPlan:
        """The prepared kernel."""
        if self._jobplan is None:
            with torch.profiler.record_function(f"prepare_kernel:{self.kernel_name}"):
                self._jobplan = prepare_kernel(os.path.join(self.code_dir, "spyreCodeDir"), profiler_name=self.kernel_name)
        return self._jobplan

    def run(self, *args: torch.Tensor, symbolic_args: list[SymbolicArg] | None = None, **kw_args) -> None:
        """One launch with the tensors of the kernel, in their order."""
        logger.info("run %s (%s)", self.kernel_name, self.code_dir)
        if symbolic_args:
            launch_jobplan(self.jobplan, args, symbolic_args)
        else:
            launch_jobplan(self.jobplan, args)
