"""Rows of measured kernel times in the form that the fit uses, and a plausibility check of them.

A row names its stack: times of different software on the same card are never pooled. Rows that state no division of
the work are left out, because the model predicts the time of a division; the one exception is stated in
`infer_division`.
"""

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Software whose rows describe the stack of June to September 2026: torch-spyre with its bundles. The older sendnn
# stack, the patched compiler branches of the fp8 work and rows of whole models are other stacks.
MATMUL_OPERATIONS = {
    "matmul", "bmm", "mmwd", "bmm_wd", "bmm_wd_3d2d", "bmm_layout", "torch.bmm", "matmul/bmm",
    "bmm (weight per batch)", "bmm (shared 2-D weight)",
}


def load_rows(path):
    return json.loads(Path(path).read_text())


def load_exclusions():
    """Identifiers of excluded rows with the reason, as committed beside this file."""
    entries = json.loads((HERE / "excluded_rows.json").read_text())
    return {entry["id"]: entry["reason"] for entry in entries}


def parse_sizes(row):
    text = row["shapes"]
    found = re.search(r"(\d+)x(\d+)x(\d+)x(\d+)", text)
    if found and row["op"] == "matmul/bmm":
        return dict(zip("BMNK", map(int, found.groups())))
    found = re.search(r"B(\d+) M(\d+) N(\d+) K(\d+)", text)
    if found:
        return dict(zip("BMNK", map(int, found.groups())))
    sizes = {}
    for name in "BMNK":
        found = re.search(rf"(?:^|[ ,]){name} ?=? ?(\d+)", text)
        if found:
            sizes[name] = int(found.group(1))
    return sizes


def parse_division(row):
    """Slices of batch, rows, columns and depth, or None where the row does not state them."""
    forced = row.get("forced_split")
    if forced:
        return tuple(int(forced.get(name) or 1) for name in "BMNK")
    text = row.get("work_division") or ""
    found = re.search(r"b_m_n_k=(\d+)_(\d+)_(\d+)_(\d+)", text)
    if found:
        return tuple(map(int, found.groups()))
    letters = dict(re.findall(r"\b([bmnk])(\d+)\b", text))
    if not letters or "cost model" in text or "requested" in text:
        return None
    return tuple(int(letters.get(name, 1)) for name in "bmnk")


def infer_division(row, sizes, batch_outer):
    """The division m16 n2 that the planner of these builds chooses for batches of 1024 or 2048 rows.

    The source says so for three of the rows (`notes/bmm_data.md`), and the planner's rows of the same sizes agree
    with them to 1 %. It is not assumed where the result is batch-outermost: that planner setting may choose another.
    """
    same = sizes.get("M") in (1024, 2048) and sizes.get("N") == 1024 and sizes.get("K") == 2048
    if same and sizes.get("B", 1) > 1 and row.get("cores") == 32 and not all(batch_outer):
        return (1, 16, 2, 1)
    return None


def collect_matmuls(rows, exclusions):
    """Matmuls and batch matmuls with a known division, and for the others the reason why they are left out."""
    kept, left_out = [], []
    for row in rows:
        if row["op"] not in MATMUL_OPERATIONS or row["unit"] not in ("us", "ms"):
            continue
        if row.get("dtype") != "fp16" or not row["kind"].startswith("kernel"):
            continue
        stack = row.get("stack_conditions") or ""
        if "sendnn" in stack or "tuned" in stack:
            left_out.append((row["id"], "another stack"))
            continue
        if row["id"] in exclusions:
            left_out.append((row["id"], exclusions[row["id"]]))
            continue
        sizes = parse_sizes(row)
        if not {"M", "N", "K"} <= set(sizes):
            left_out.append((row["id"], "the shapes are not stated"))
            continue
        layout = row.get("layout_tile_order") or ""
        outer = [
            bool(re.search(pattern, layout))
            for pattern in (
                r"A[ =](1,0,2|batch-outer)", r"B[ =](1,0,2|batch-outer)", r"(C|output) batch-outer",
            )
        ]
        shared = "3d2d" in row["op"] or "shared 2-D" in row["op"]
        division = parse_division(row)
        if division is None and not shared:
            division = infer_division(row, sizes, outer)
        if division is None:
            left_out.append((row["id"], "the division is not stated"))
            continue
        batch = sizes.get("B", 1)
        b, m, n, k = division
        if b > batch or 64 * n > sizes["N"] or b * m * n * k > 32:
            left_out.append((row["id"], "the stated division cannot be carried out"))
            continue
        if "exceeds" in (row.get("note") or ""):
            left_out.append((row["id"], "the request was not honoured, as the source says"))
            continue
        kept.append({
            "id": row["id"],
            "source": row["source"].split(" (commit")[0] + ((" " + row["build"]) if row.get("build") else ""),
            "sizes": (batch, sizes["M"], sizes["N"], sizes["K"]),
            "division": division,
            "shared": shared,
            "outer": outer,
            # The share of the scratchpad that the backend may stage operands in.
            "fraction": 0.8 if "0.8" in stack else 0.2,
            "us": row["value"] * (1000 if row["unit"] == "ms" else 1),
        })
    return kept, left_out


# Operations of the sweeps without a product: bytes read and written, element arrangement fp16, and their class.
def stream_bytes(row):
    op, r, c = row["op"], row["rows"], row["cols"]
    tensor = 2 * r * c
    if op in ("neg", "gelu", "exp"):
        return "unary", tensor, tensor
    if op in ("copy",):
        return "broadcast", tensor + 128, tensor
    if op in ("bcast", "mulbcast"):
        return "broadcast", tensor + 2 * c, tensor
    if op == "bcastcol":
        return "broadcast", tensor + 128 * r, tensor
    if op in ("add", "mul"):
        return "binary", 2 * tensor, tensor
    if op == "add_indep2":
        return "binary", 4 * tensor, 2 * tensor
    if op in ("read", "sumrow", "amax", "mean"):
        return "row_reduction", tensor, 128 * r
    if op == "sumcol" or (op in ("ctsum", "ctamax", "ctamin") and (row.get("tiles") or 0) <= 1):
        return "cross_row", tensor, 2 * c
    if op == "transpose":
        return "transpose", tensor, tensor
    if op == "transpose_outer":
        return "transpose_outer", tensor * row["mid"], tensor * row["mid"]
    if op == "cat0":
        return "cat_rows", tensor, 2 * tensor
    if op == "cat1":
        return "cat_columns", tensor, 2 * tensor
    return None


def collect_streams(rows, exclusions):
    """Single operations of the sweeps that stream tensors through the cores."""
    kept = []
    for row in rows:
        if not row.get("log") or row["unit"] != "us" or row["id"] in exclusions or "rows" not in row:
            continue
        found = stream_bytes(row)
        if found is None or row.get("suspicious"):
            continue
        kind, read, written = found
        kept.append({
            "id": row["id"], "op": row["op"], "kind": kind, "read": read, "written": written,
            "rows": row["rows"], "columns": row["cols"], "mid": row.get("mid", 1), "cores": row.get("cores") or 32,
            "source": row["build"], "us": row["value"],
        })
    return kept
