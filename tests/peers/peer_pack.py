"""linalg.pack beside IREE, which compiles the operations for the CPU and runs them."""

from __future__ import annotations

import importlib.metadata

import iree.compiler
import iree.runtime
import numpy
from common import Tally, arguments, size

PER_MODULE = 16  # Operations that are compiled together.


def random_pack(rng):
    shape = [rng.choice([1, 2, 3, 4, 5, 6, 7, 8]) for _ in range(rng.choice([1, 2, 2, 3, 4]))]
    dims = list(range(len(shape)))
    pos = rng.sample(dims, rng.randrange(1, len(dims) + 1))
    tiles = [rng.choice([1, 2, 3, 4, 8]) for _ in pos]
    perm = rng.sample(dims, len(dims))
    packed = [shape[d] for d in dims]
    for d, t in zip(pos, tiles):
        packed[d] = -(-packed[d] // t)
    packed = [packed[d] for d in perm] + tiles
    kind = lambda s: f"tensor<{'x'.join(map(str, s))}xi32>"  # noqa: E731
    attributes = f"outer_dims_perm = {perm} inner_dims_pos = {pos} inner_tiles = {tiles}"
    op = f"linalg.pack %a padding_value(%z : i32) {attributes} into %e : {kind(shape)} -> {kind(packed)}"
    return shape, packed, op, kind


def main() -> None:
    zellige, rng, cases = arguments(96)
    tally = Tally(f"pack (IREE {importlib.metadata.version('iree-base-compiler')})")
    packs = [random_pack(rng) for _ in range(cases)]
    for first in range(0, cases, PER_MODULE):
        part, functions = packs[first : first + PER_MODULE], []
        for k, (shape, packed, op, kind) in enumerate(part):
            functions.append(
                f"func.func @f{k}(%a: {kind(shape)}) -> {kind(packed)} {{ %z = arith.constant 0 : i32 %e = tensor.empty() : {kind(packed)}\n"
                f"%r = {op} return %r : {kind(packed)} }}"
            )
        binary = iree.compiler.compile_str("\n".join(functions), target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=generic"])
        config = iree.runtime.Config("local-task")
        module = iree.runtime.load_vm_flatbuffer(binary, driver="local-task") if hasattr(iree.runtime, "load_vm_flatbuffer") else None
        if module is None:
            context = iree.runtime.SystemContext(config=config)
            context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, binary))
            module = context.modules.module
        for k, (shape, packed, op, _) in enumerate(part):
            source = numpy.arange(1, size(shape) + 1, dtype=numpy.int32).reshape(shape)
            result = numpy.asarray(getattr(module, f"f{k}")(source).to_host()).reshape(-1)
            order = numpy.argsort(result, kind="stable")[len(result) - size(shape) :].tolist()
            found = zellige.ask("physical_order", layout=op, shape=shape)
            ours = (found["ok"]["order"], found["ok"]["padded_elements"]) if "ok" in found else found
            tally.same(op, ours, (order, size(packed)))
    tally.finish()


main()
