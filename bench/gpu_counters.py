"""Bank conflicts and sectors that the analysis says, beside what the hardware counts.

    python bench/gpu_counters.py [--json docs/gpu-results.json]

Each access is one instruction of one warp: lanes read fragments of matrix instructions (the presets) from a tile in
shared memory or in global memory. The analysis is asked through `zellige.ask` for the banks of every phase and for the
32-byte sectors; the same addresses are then read by a kernel, and `ncu` counts wavefronts and sectors. Needs ncu with
the right to read counters, and CuPy.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import zellige

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
BYTES = {"float16": 2, "float32": 4}

# A fragment, the elements of it that a lane has side by side, and the tile that it is read from.
FRAGMENTS = [
    ("mma-m16n8-cd", 2, "float32", "S[(16,8):(8,1)]"),
    ("mma-m16n8-cd", 2, "float32", "S[(16,8):(40,1)]"),
    ("mma-m16n8-cd", 1, "float32", "S[(16,8):(32,1)]"),
    ("mma-m16n8k16-a", 2, "float16", "S[(16,16):(16,1)]"),
    ("mma-m16n8k16-a", 2, "float16", "S[(16,16):(64,1)]"),
    ("mma-m16n8k16-a", 2, "float16", "Swizzle(3,3,3) o S[(16,16):(64,1)]"),
    ("mma-m16n8k16-b", 1, "float16", "S[(16,8):(64,1)]"),
]
# Lanes by hand: a column and a row of a tile, plain and swizzled.
TILES = [
    ("column of 32x32 f32", "float32", "S[(32,32):(32,1)]", {"kind": "column"}, 1),
    ("column of 32x32 f32, rows of 33", "float32", "S[(32,32):(33,1)]", {"kind": "column"}, 1),
    ("16-byte column of 8x64 f16", "float16", "S[(8,64):(64,1)]", {"kind": "column"}, 8),
    ("16-byte column of 8x64 f16, 128-byte swizzle", "float16", "Swizzle(3,3,3) o S[(8,64):(64,1)]", {"kind": "column"}, 8),
    ("row of 4x128 f32, 16 bytes each", "float32", "S[(4,128):(128,1)]", {"kind": "row"}, 4),
]


def lanes_of(preset, vector):
    """For every lane the coordinate of its first elements."""
    (found,) = zellige.ask({"op": "presets", "name": preset})["presets"]
    layout, (rows, columns) = zellige.Layout(found["layout"], found["shape"]), found["shape"]
    first = {}
    for i in range(rows):
        for j in range(0, columns, vector):
            place = layout.apply(i, j)[0]
            first.setdefault(place.get("laneid", 0), []).append((place.get("m", 0), [i, j]))
    return [min(first[lane])[1] for lane in range(32)]


def accesses():
    """A name, a tile with its shape and dtype, the access as it is asked about, and elements per lane."""
    for preset, vector, dtype, tile in FRAGMENTS:
        yield f"{preset} from {tile}", tile, dtype, {"kind": "lanes", "lanes": lanes_of(preset, vector)}, vector
    yield from ((name, tile, dtype, access, vector) for name, dtype, tile, access, vector in TILES)


def said(tile, dtype, access, vector):
    """Wavefronts and sectors by the analysis, and the byte address of every lane."""
    layout = zellige.Layout(tile)
    found = zellige.ask({"op": "analyze", "layout": tile, "dtype": dtype, "access": access, "vector": vector})
    rows, columns = layout.shape
    lanes = access.get("lanes") or ([[r, 0] for r in range(rows)] if access["kind"] == "column" else [[0, c] for c in range(0, columns, vector)])
    at = [layout.apply(*lane)[0]["m"] * BYTES[dtype] for lane in lanes]
    return sum(phase["ways"] for phase in found["banks"]["phases"]), found["sectors"], at


def kernel(index, at, nbytes):
    """Two kernels that read these addresses: from shared memory, and from global memory."""
    words = {2: ("u16", "h", "unsigned short"), 4: ("u32", "r", "unsigned"), 8: ("u64", "l", "unsigned long long")}
    # What is compared with has the type that is read: a load whose result cannot matter is left out by the assembler.
    kind, letter, name = words.get(nbytes, (None, None, "unsigned long long"))
    if nbytes == 16:
        load = 'unsigned a, b, c, d; asm volatile("ld.{space}.v4.u32 {{%0,%1,%2,%3}}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "{pointer}"(p)); unsigned long long v = a ^ b ^ c ^ d;'
    else:
        load = f'{name} v; asm volatile("ld.{{space}}.{kind} %0, [%1];" : "={letter}"(v) : "{{pointer}}"(p));'
    table = f"__constant__ unsigned at{index}[{len(at)}] = {{{','.join(map(str, at))}}};\n"
    texts = []
    for space, pointer, base in (("shared", "r", "(unsigned)__cvta_generic_to_shared(tile)"), ("global", "l", "(unsigned long long)from")):
        inner = load.replace("{space}", space).replace("{pointer}", pointer).replace("{{", "{").replace("}}", "}")
        kind = "unsigned" if pointer == "r" else "unsigned long long"
        texts.append(
            f'extern "C" __global__ void {space}{index}(const char* from, unsigned* to) {{ __shared__ uint4 tile[2048];\n'
            f"  {kind} p = {base} + at{index}[threadIdx.x]; {inner}\n  if (v == ({name})0x9E3779B9u) *to = 1; }}\n"
        )
    return table + "".join(texts)


def run():
    """Launches everything once; ncu watches."""
    import cupy

    source = [(i, kernel(i, said(tile, dtype, access, vector)[2], vector * BYTES[dtype])) for i, (_, tile, dtype, access, vector) in enumerate(accesses())]
    module = cupy.RawModule(code="".join(text for _, text in source), options=("-std=c++17",))
    memory, to = cupy.zeros(1 << 16, dtype=cupy.uint8), cupy.zeros(1, dtype=cupy.uint32)
    for i, (_, tile, dtype, access, vector) in enumerate(accesses()):
        lanes = len(said(tile, dtype, access, vector)[2])
        for space in ("shared", "global"):
            module.get_function(f"{space}{i}")((1,), (lanes,), (memory, to))
    cupy.cuda.Device().synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="what ncu watches")
    parser.add_argument("--said", action="store_true", help="the analysis alone, without a device")
    parser.add_argument("--json", type=Path, default=Path(__file__).resolve().parent.parent / "docs" / "gpu-results.json")
    options = parser.parse_args()
    if options.run:
        return run()
    if options.said:
        for name, tile, dtype, access, vector in accesses():
            wavefronts, sectors, _ = said(tile, dtype, access, vector)
            print(f"{name:64s} wavefronts {wavefronts:3d}  sectors {sectors:3d}")
        return None
    ncu = shutil.which("ncu") or next((str(p) for p in sorted(Path("/").glob("usr/local/cuda*/bin/ncu"))), None)
    if ncu is None:
        sys.exit("ncu is not installed: there are no counters to compare with")
    command = [ncu, "--csv", "--metrics", f"{WAVEFRONTS},{SECTORS}", sys.executable, __file__, "--run"]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    counted = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        if row.get("Metric Name") in (WAVEFRONTS, SECTORS):
            counted[row["Kernel Name"].split("(")[0], row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    if not counted:
        sys.exit(f"ncu counted nothing: {(done.stdout + done.stderr)[-1500:]}")
    rows, wrong = [], 0
    for i, (name, tile, dtype, access, vector) in enumerate(accesses()):
        wavefronts, sectors, _ = said(tile, dtype, access, vector)
        found = counted.get((f"shared{i}", WAVEFRONTS)), counted.get((f"global{i}", SECTORS))
        rows.append({"name": name, "wavefronts": wavefronts, "counted_wavefronts": found[0], "sectors": sectors, "counted_sectors": found[1]})
        differs = (wavefronts, sectors) != found
        wrong += differs
        print(f"{name:64s} wavefronts {wavefronts:3d} counted {found[0]}  sectors {sectors:3d} counted {found[1]}{'  DIFFERS' if differs else ''}")
    figures = json.loads(options.json.read_text()) if options.json.exists() else {}
    figures["counters"] = rows
    options.json.write_text(json.dumps(figures, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
