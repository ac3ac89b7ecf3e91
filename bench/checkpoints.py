"""How fast a checkpoint is divided anew, beside `cp` of the same files.

    python3 bench/checkpoints.py PROGRAM FOLDER [--layers 4] [--rounds 5] [--case NAME] [--threads 2]

PROGRAM is a release build of zellige, whose command `reshard` is timed. FOLDER is made, filled with a Llama-like checkpoint (0.4 GB a
layer) and removed. Every round copies the files of the input with cp and divides them anew, in turns; both begin with the input
in the page cache and no unwritten pages, and both end when every file and its folder is on the disk (fsync). A speed is bytes of the
input a second. The ratio is the median over rounds of the two speeds of a round, with the least and the greatest one. CPU is what all
cores together took, of user and system, without waiting for the disk. With FOLDER in a RAM disk (/dev/shm) there is no disk at all.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import struct
import subprocess
import time

ROWS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"]
COLUMNS = ["self_attn.o_proj", "mlp.down_proj"]


def shapes(layers):
    out = {}
    for i in range(layers):
        for name in ROWS + COLUMNS:
            wide = "mlp" in name
            shape = [11008, 4096] if wide else [4096, 4096]
            out[f"model.layers.{i}.{name}.weight"] = shape[::-1] if name == "mlp.down_proj" else shape
        out[f"model.layers.{i}.input_layernorm.weight"] = [4096]
    return out


def write_one(path, tensors):
    """One .safetensors file of BF16 whose bytes are of no pattern."""
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    chunk = os.urandom(1 << 24)
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at > 0:
            at -= file.write(chunk[: min(at, len(chunk))])


def plan(source, target, layers):
    """Sides are (mesh, files, how a tensor is divided)."""
    text = ""
    for key, (mesh, files, _) in (("from", source), ("to", target)):
        text += f'[{key}]\n' + (f'mesh = "{mesh}"\n' if mesh else "") + f'files = "{files}"\n'
    rules = [(f"model.layers.{{i}}.{n}.weight", "rows") for n in ROWS]
    rules += [(f"model.layers.{{i}}.{n}.weight", "columns") for n in COLUMNS]
    rules += [("model.layers.{i}.*", "other")]
    for name, kind in rules:
        text += f'[[tensor]]\nname = "{name}"\n'
        for key, (_, _, how) in (("from", source), ("to", target)):
            layout = how(kind, layers)
            text += f'{key} = "{layout}"\n' if layout else ""
    return text


def tensor_parallel(kind, _):
    return {"rows": "P('tp', None)", "columns": "P(None, 'tp')"}.get(kind)


SIDES = {
    "one": ("", "model.safetensors", lambda kind, layers: None),
    "tp2": ("tp=2", "rank-{rank}.safetensors", tensor_parallel),
    "tp4": ("tp=4", "rank-{rank}.safetensors", tensor_parallel),
    "pp2": ("pp=2", "stage-{pp}.safetensors", lambda kind, layers: f"whole at pp={{i}}/{(layers + 1) // 2}"),
    "flat4": ("dp=4", "rank-{rank}.safetensors", lambda kind, layers: "flat"),
}
CASES = [("tp4", "tp2"), ("one", "tp4"), ("tp4", "one"), ("pp2", "one"), ("flat4", "tp4")]


def synced(folder):
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def cpu():
    """Seconds of all cores of this process and of those that it has begun."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def timed(work, out):
    """Seconds that passed, and those of cores."""
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    start, used = time.perf_counter(), cpu()
    work()
    took = time.perf_counter() - start, cpu() - used
    shutil.rmtree(out)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--case", help="as tp4-tp2; all without it")
    parser.add_argument("--keep", action="store_true", help="leave the checkpoints in FOLDER")
    args = parser.parse_args()

    def reshard(source, target, out):
        rules = args.folder / f"{source}-{target}.toml"
        rules.write_text(plan(SIDES[source], SIDES[target], args.layers))
        subprocess.run(
            [args.program, "reshard", args.folder / source, out, "--plan", rules, "--threads", str(args.threads)],
            check=True, stdout=subprocess.DEVNULL,
        )

    if not (args.folder / "one").exists():
        write_one(args.folder / "one" / "model.safetensors", shapes(args.layers))
    print("| input and output | GB | cp and fsync, GB/s | reshard, GB/s | reshard / cp | least to greatest | CPU of cp, s | CPU of reshard, s |")
    print("|---|---|---|---|---|---|---|---|")
    for source, target in CASES:
        if args.case not in (None, f"{source}-{target}"):
            continue
        folder = args.folder / source
        if not folder.exists():
            reshard("one", source, folder)
        size = sum(p.stat().st_size for p in folder.iterdir()) / 1e9
        out = args.folder / "out"

        def copy():
            subprocess.run(["cp", "-r", folder, out], check=True)
            synced(out)

        ways = [copy, lambda: reshard(source, target, out)]
        rounds = []
        for k in range(args.rounds + 1):
            order = (0, 1) if k % 2 == 0 else (1, 0)
            found = {way: timed(ways[way], out) for way in order}
            if k > 0:
                rounds.append((found[0], found[1]))
        copied, moved = (statistics.median(size / p[k][0] for p in rounds) for k in (0, 1))
        ratios = sorted(a[0] / b[0] for a, b in rounds)
        busy = [statistics.median(p[k][1] for p in rounds) for k in (0, 1)]
        print(
            f"| {source} to {target} | {size:.2f} | {copied:.2f} | {moved:.2f} | {statistics.median(ratios):.2f} | "
            f"{ratios[0]:.2f} to {ratios[-1]:.2f} | {busy[0]:.2f} | {busy[1]:.2f} |",
            flush=True,
        )
    if not args.keep:
        shutil.rmtree(args.folder)


main()
