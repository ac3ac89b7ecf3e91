"""Measured rows with the kernels that the compiler makes of them, as `zellige bench fidelity --json` prints them.

A row names its stack: times of different software on the same card are never pooled, so that the fit sees rows of
torch-spyre alone.
"""

import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The program that predicts: any build of `zellige` does.
PROGRAM = os.environ.get("ZELLIGE", str(ROOT / "target/debug/zellige"))

STREAMS = ("pointwise", "broadcast", "chain of adds", "reduction", "transpose", "cat")
PRODUCTS = ("matmul", "bmm", "bmm, shared weight", "fp8 linear")


def predict_rows(path, preset):
    """All rows of a file as the account predicts them with a preset."""
    excluded = HERE / "excluded_rows.json"
    command = [PROGRAM, "bench", "fidelity", str(path), "--json", "--exclude", str(excluded), "--hardware", str(preset)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]


def read_fractions(path):
    """The share of the scratchpad that the backend may stage operands in, by the number of the row."""
    rows = json.loads(Path(path).read_text())
    return {row["id"]: 0.8 if "0.8" in (row.get("stack_conditions") or "") else 0.2 for row in rows}


def select_rows(rows):
    """Rows that take part in the fit: streams, products, and softmax in loops, which fixes what a kernel costs alone."""
    mine = [r for r in rows if r["stack"] == "torch-spyre" and r["unit"] == "us"]
    # What is almost only written scatters by a factor of two without a mechanism here.
    streams = [r for r in mine if r["category"] in STREAMS and not r["what"].startswith("write")]
    softmax = [r for r in mine if r["what"].startswith("softmax") and r["category"] in ("softmax", "tiled loop")]
    # A request that was not honoured says nothing about the division that ran.
    products = [
        r for r in mine
        if (r["category"] in PRODUCTS or r["category"] == "tiled loop") and "not honoured" not in r["what"]
        and any(k["tile"] for k in r["kernels"])
    ]
    return streams + softmax, products
