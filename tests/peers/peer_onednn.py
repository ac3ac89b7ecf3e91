"""oneDNN's format tags beside the library itself: real reorders of every tag, position by position.

The library is that of the package onednn-cpu-gomp, called through ctypes. `tensor.to_mkldnn()` of PyTorch is the same
library, and its blocked memory cannot be looked at from Python.
"""

from __future__ import annotations

import ctypes
import os
import sys

import numpy
from common import Tally, arguments, size

F32 = 3  # dnnl_f32
CPU = 1  # dnnl_cpu
ARG_FROM, ARG_TO = 1, 17  # DNNL_ARG_FROM, DNNL_ARG_TO
OUTSIDE = -7.0


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]


class Argument(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_int), ("memory", ctypes.c_void_p)]


class Library:
    def __init__(self):
        self.dll = ctypes.CDLL(os.path.join(sys.prefix, "lib", "libdnnl.so"))
        self.dll.dnnl_fmt_tag2str.restype = ctypes.c_char_p
        self.dll.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        self.dll.dnnl_version.restype = ctypes.POINTER(Version)
        v = self.dll.dnnl_version().contents
        self.version = f"{v.major}.{v.minor}.{v.patch}"
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("dnnl_engine_create", ctypes.byref(self.engine), CPU, ctypes.c_size_t(0))
        self.call("dnnl_stream_create", ctypes.byref(self.stream), self.engine, 1)

    def call(self, name: str, *operands) -> None:
        status = getattr(self.dll, name)(*operands)
        if status != 0:
            raise ValueError(f"{name} answers {status}")

    def tags(self) -> dict:
        """The names of all tags, and their numbers."""
        found = {}
        for number in range(2, 4000):
            name = self.dll.dnnl_fmt_tag2str(number).decode()
            if name == "unknown fmt_tag":
                break
            found[name] = number
        return found

    def descriptor(self, dims, tag: int) -> ctypes.c_void_p:
        md = ctypes.c_void_p()
        sizes = (ctypes.c_int64 * 12)(*dims)
        self.call("dnnl_memory_desc_create_with_tag", ctypes.byref(md), len(dims), sizes, F32, tag)
        return md

    def memory(self, md, data) -> ctypes.c_void_p:
        memory = ctypes.c_void_p()
        self.call("dnnl_memory_create", ctypes.byref(memory), md, self.engine, ctypes.c_void_p(data.ctypes.data))
        return memory

    def reorder(self, dims, plain: int, tag: int):
        """Where the elements 1, 2, .. of a row-major tensor are in memory of a tag; what lies in the padding."""
        src_md, dst_md = self.descriptor(dims, plain), self.descriptor(dims, tag)
        nbytes = self.dll.dnnl_memory_desc_get_size(dst_md)
        src = numpy.arange(1, size(dims) + 1, dtype=numpy.float32)
        dst = numpy.full(nbytes // 4, OUTSIDE, dtype=numpy.float32)
        a, b = self.memory(src_md, src), self.memory(dst_md, dst)
        pd, primitive = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            self.call("dnnl_reorder_primitive_desc_create", ctypes.byref(pd), src_md, self.engine, dst_md, self.engine, None)
            self.call("dnnl_primitive_create", ctypes.byref(primitive), pd)
            pair = (Argument * 2)(Argument(ARG_FROM, a), Argument(ARG_TO, b))
            self.call("dnnl_primitive_execute", primitive, self.stream, 2, pair)
            self.call("dnnl_stream_wait", self.stream)
        finally:
            for name, handle in (("primitive", primitive), ("primitive_desc", pd), ("memory", a), ("memory", b), ("memory_desc", src_md), ("memory_desc", dst_md)):
                if handle.value:
                    getattr(self.dll, f"dnnl_{name}_destroy")(handle)
        order = numpy.zeros(size(dims), dtype=numpy.int64)
        held = numpy.flatnonzero(dst > 0)
        order[dst[held].astype(numpy.int64) - 1] = held
        return order.tolist(), len(dst), held.size


def main() -> None:
    zellige, rng, cases = arguments(3)
    library = Library()
    tally = Tally(f"onednn (oneDNN {library.version})")
    tags = library.tags()
    plain = {n: tags["abcdefghijkl"[:n]] for n in range(1, 13)}
    refused = 0
    for name, number in sorted(tags.items()):
        # Names such as nChw16c are printed by their letters.
        letters = name.lower()
        rank = max(ord(c) for c in letters if c.isalpha()) - ord("a") + 1
        if not all(chr(ord("a") + k) in letters for k in range(rank)):
            continue
        for _ in range(cases):
            dims = [rng.choice([1, 2, 3, 4, 5]) for _ in range(rank)] if rank > 4 else [rng.choice([1, 2, 3, 5, 8, 17]) for _ in range(rank)]
            while size(dims) > 4096:
                dims[rng.randrange(rank)] = 1
            try:
                order, positions, held = library.reorder(dims, plain[rank], number)
            except ValueError:
                refused += 1  # No reorder of this library writes it.
                continue
            if held != size(dims):
                tally.bad(f"{name} of {dims}: the reorder lost elements", held, size(dims))
                continue
            found = zellige.ask("physical_order", layout=name, shape=dims, notation="onednn")
            ours = (found["ok"]["order"], found["ok"]["padded_elements"]) if "ok" in found else found
            tally.same(f"{name} of {dims}", ours, (order, positions))
    print(f"  {len(tags)} tags; {refused} shapes that the library does not reorder")
    tally.finish()


main()
