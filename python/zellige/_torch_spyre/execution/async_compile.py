"""Compiles records of operations (``_inductor.op_spec``) for the simulated card."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence

import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.runtime.runtime_utils import cache_dir

from zellige import _native

from .._inductor.errors import Unsupported
from .._inductor.logging_utils import get_inductor_logger
from .._inductor.op_spec import find_unimplemented, format_op_spec_list
from .job_plan import KERNEL_FILE, kernel_document
from .kernel_graph import graph_of_specs
from .kernel_runner import SpyreSDSCKernelRunner, SpyreUnimplementedRunner

logger = get_inductor_logger("sdsc_compile")


def get_output_dir(kernel_name: str) -> str:
    """A new folder for a kernel, in the cache of Inductor."""
    root = os.path.join(cache_dir(), "inductor-spyre")
    os.makedirs(root, exist_ok=True)
    return tempfile.mkdtemp(dir=root, prefix=f"{kernel_name}_")


class SpyreAsyncCompile(AsyncCompile):
    """Kernels for the card beside those that Inductor compiles for the CPU."""

    def sdsc(self, kernel_name: str, specs: Sequence, pool_size: int = 0):
        """The runner of a kernel. Its folder has the files of ``report.emit`` (the SuperDSC of its operations, the graph, the
        report), and what a launch needs. The compiler plans memory inside of a kernel itself, so that ``pool_size`` is not read.

        Raises ``Unsupported`` for operations that the device has no function for here, with those that it has.
        """
        missing = find_unimplemented(list(specs))
        if missing is not None:
            logger.warning("%s has the unimplemented operation %s: it raises when it is run", kernel_name, missing.op)
            return SpyreUnimplementedRunner(kernel_name, missing.op)
        logger.debug("%s:\n%s", kernel_name, format_op_spec_list(specs))
        name = re.sub(r"\W", "_", kernel_name)
        graph, arguments = graph_of_specs(name if name[:1].isalpha() else f"k{name}", specs)
        program = _native.Program(json.dumps(graph), torch.spyre.current_device(), None, None)
        folder, _ = program.emit(get_output_dir(name))
        with open(os.path.join(folder, KERNEL_FILE), "w", encoding="utf-8") as file:
            json.dump(kernel_document(graph, arguments), file)
        return SpyreSDSCKernelRunner(kernel_name, os.fspath(folder))

    def triton(self, *args, **kwargs):
        """The card runs no Triton."""
        raise Unsupported("a kernel of Triton: records of operations (`sdsc`) and kernels for the CPU (`cpp_pybinding`) are accepted")

    def cpp(self, *args, **kwargs):
        """Kernels for the CPU are those of ``cpp_pybinding``."""
        raise Unsupported("`cpp`: kernels for the CPU are compiled by `cpp_pybinding`")
