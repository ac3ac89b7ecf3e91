"""Writes the graphs of "How long compiling takes" that are larger than models, and measures them.

    python3 bench/large_graphs.py PROGRAM [FOLDER]

A chain of pointwise operations, branches from one tensor that are summed in pairs, and the layer of
examples/llama-block.graph many times over. Prints the elapsed time of `PROGRAM compile` of each.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def graph(inputs, operations, outputs):
    heads = "".join(f"    {i},\n" for i in inputs)
    body = "".join(f"    {o}\n" for o in operations)
    return f"graph g(\n{heads}) {{\n{body}    return {', '.join(outputs)}\n}}\n"


def chain(count):
    names = ["relu", "exp", "neg", "gelu"]
    operations = [f"t{i} = {names[i % 4]}({f't{i - 1}' if i else 'x'})" for i in range(count)]
    return graph(["x: float16[64, 128]"], operations, [f"t{count - 1}"])


def branches(count):
    operations, last = [], []
    for i in range(count):
        operations.append(f"a{i} = {'relu' if i % 2 else 'exp'}(x)")
        operations.append(f"b{i} = add(a{i}, {i + 1}.0)")
        last.append(f"b{i}")
    while len(last) > 1:
        sums = []
        for left, right in zip(last[::2], last[1::2]):
            name = f"s{len(operations)}"
            operations.append(f"{name} = add({left}, {right})")
            sums.append(name)
        last = sums + last[len(sums) * 2 :]
    return graph(["x: float16[64, 128]"], operations, last)


def layers(count):
    head, body = (ROOT / "examples/llama-block.graph").read_text().split(") {")
    inputs = [line.strip().rstrip(",") for line in head.split("(\n", 1)[1].splitlines() if line.strip()]
    operations = [line.strip() for line in body.splitlines() if "=" in line and not line.strip().startswith("#")]
    result = re.search(r"return (.*)", body).group(1).strip()
    all_inputs = [i for i in inputs if not i.startswith("layer0.")]
    all_operations, previous = [], "x"
    for k in range(count):
        all_inputs += [i.replace("layer0.", f"layer{k}.") for i in inputs if i.startswith("layer0.")]
        for operation in operations:
            all_operations.append(re.sub(r"\bx\b(?!=)", previous, operation.replace("layer0.", f"layer{k}.")))
        previous = result.replace("layer0.", f"layer{k}.")
    return graph(all_inputs, all_operations, [previous])


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    program = sys.argv[1]
    folder = Path(sys.argv[2] if len(sys.argv) == 3 else tempfile.mkdtemp())
    for name, text in [("chain", chain(40_000)), ("layers", layers(500)), ("branches", branches(3_200))]:
        path = folder / f"{name}.graph"
        path.write_text(text)
        begin = time.perf_counter()
        subprocess.run([program, "compile", path], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "ZELLIGE_CACHE": "off"})
        print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)


main()
