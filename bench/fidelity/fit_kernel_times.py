"""Fits the constants of the kernel-time model to measured rows, and judges the account with rows that it has not seen.

    cargo build --bin zellige
    python3 bench/fidelity/fit_kernel_times.py ROWS.json

needs numpy and scipy. ROWS.json has the format of `docs/fidelity.md`. It writes `report.md` and `constants.json` beside
itself, and the predictions that a test of `zellige-machine` compares with.

Constants are found by least squares on a robust loss of the logarithm, pulled weakly towards the first guesses; every fold
starts from the first guesses, because a fold that starts from the full fit does not move and looks as good as the fit
itself. Every fold becomes a preset of its own, with which `zellige bench fidelity` predicts the rows that were left out:
the errors are those of the account in Rust, layouts and divisions included.
"""

import hashlib
import json
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

import kernel_time_model as model
import measured_rows
from write_preset import PresetWriter

HERE = measured_rows.HERE
SHAPE_FOLDS = 8
# Sources with fewer rows are left out together.
ROWS_OF_A_SOURCE = 25


class Kernels:
    """Kernels of rows as arrays, and the sums of their times by row."""

    def __init__(self, rows, fractions):
        self.us = np.array([row["measured"] for row in rows])
        self.known = np.zeros(len(rows))
        products, streams = [], []
        for i, row in enumerate(rows):
            for kernel in row["kernels"]:
                if kernel["tile"]:
                    products.append((i, kernel))
                elif kernel["kind"] in ("fallback", "upload", "download"):
                    self.known[i] += kernel["us"] * kernel["runs"]
                else:
                    streams.append((i, kernel))
        self.of_product = np.array([i for i, _ in products], int)
        self.of_stream = np.array([i for i, _ in streams], int)
        shares = [fractions.get(rows[i]["id"], 0.2) for i, _ in products]
        self.products = model.product_columns([k for _, k in products], shares) if products else None
        self.streams = model.stream_columns([k for _, k in streams]) if streams else None

    def product_sum(self, c):
        total = np.zeros(len(self.us))
        if self.products is not None:
            np.add.at(total, self.of_product, model.product_time(c, self.products) * self.products["runs"])
        return total

    def stream_sum(self, c):
        total = np.zeros(len(self.us))
        if self.streams is not None:
            np.add.at(total, self.of_stream, model.stream_time(c, self.streams) * self.streams["runs"])
        return total


def search_constants(spec, time, us, width, pull):
    names = list(spec)
    first = np.log([spec[name][0] for name in names])

    def residuals(x):
        error = (np.log(time(dict(zip(names, np.exp(x))))) - np.log(us)) / width
        robust = np.sign(error) * np.sqrt(2 * (np.sqrt(1 + error**2) - 1))
        return np.concatenate([robust, np.sqrt(pull) * (x - first) / 0.15])

    found = least_squares(residuals, first, max_nfev=40, diff_step=3e-3)
    return {name: float(f"{value:.4g}") for name, value in zip(names, np.exp(found.x))}


def fit_constants(rows, fractions, keep):
    """The constants of both families from the rows that `keep` accepts; streams first, as products take in what they cost."""
    streams, products = ([r for r in part if keep(r)] for part in measured_rows.select_rows(rows))
    plain = Kernels(streams, fractions)
    stream = search_constants(
        model.STREAM_CONSTANTS, lambda c: plain.stream_sum(c) + plain.known, plain.us, 0.1, 0.02)
    mixed = Kernels(products, fractions)
    beside = mixed.stream_sum(stream) + mixed.known
    matmul = search_constants(
        model.MATMUL_CONSTANTS, lambda c: mixed.product_sum(c) + beside, mixed.us, 0.12, 0.05)
    return {"matmul": matmul, "stream": stream}


def judge_preset(path, constants, folder):
    """Errors of all rows with a preset of these constants, by number, and whole rows."""
    preset = Path(folder) / "fold.toml"
    writer = PresetWriter(constants["matmul"], constants["stream"], model.BLOCK, lambda group, key: "fitted to a fold")
    preset.write_text(writer.text())
    return {row["id"]: row for row in measured_rows.predict_rows(path, preset)}


def shape_of(row):
    """What rows of one size share: sizes without the division, the cores and the number of tiles."""
    sizes = re.findall(r"\d+", row["what"].split(", ")[0].split("T=")[0])
    return " ".join([row["category"].split(",")[0], *sizes])


def leave_out(path, rows, fractions, groups, folder):
    """Predictions of every row under constants that were fitted without its group, and the constants of every fold."""
    predicted, folds = {}, []
    for group in sorted(set(groups.values())):
        constants = fit_constants(rows, fractions, lambda r: groups[r["id"]] != group)
        folds.append(constants)
        judged = judge_preset(path, constants, folder)
        predicted.update({i: judged[i] for i, of in groups.items() if of == group})
    return predicted, folds


def table_line(name, rows):
    errors = np.log([row["ratio"] for row in rows])
    near = np.mean(np.abs(np.exp(errors) - 1) <= 0.15)
    return (f"| {name} | {len(errors)} | {np.sqrt(np.mean(errors**2)):.3f} | {np.mean(errors):+.3f} | "
            f"{np.median(np.abs(errors)):.3f} | {100 * near:.0f} % |")


HEAD = "| rows | count | RMS of log | bias | median | within 15 % |\n|---|---:|---:|---:|---:|---:|"


def category_table(rows):
    lines = [HEAD]
    mine = [r for r in rows if r["stack"] == "torch-spyre"]
    for category in dict.fromkeys(r["category"] for r in mine):
        lines.append(table_line(category, [r for r in mine if r["category"] == category]))
    lines.append(table_line("torch-spyre, all", mine))
    lines.append(table_line("sendnn, all", [r for r in rows if r["stack"] == "sendnn"]))
    return lines


def order_line(title, rows):
    """Rank correlation within a shape, and what the preferred division costs against the best measured one."""
    groups = defaultdict(list)
    for row in rows:
        if row["forced"] and row["category"] in measured_rows.PRODUCTS:
            groups[row["shape"]].append(row)
    ranks, losses = [], []
    for members in groups.values():
        if len({m["forced"] for m in members}) < 4:
            continue
        us = np.array([m["measured"] for m in members])
        predicted = np.array([m["predicted"] for m in members])
        rank = lambda x: np.argsort(np.argsort(x))
        ranks.append(np.corrcoef(rank(us), rank(predicted))[0, 1])
        losses.append(us[predicted.argmin()] / us.min())
    good = 100 * np.mean(np.array(losses) <= 1.05)
    return (f"- {title}: {len(ranks)} shapes with at least four divisions; mean rank correlation {np.mean(ranks):.2f}; the "
            f"preferred division is within 5 % of the best measured one for {good:.0f} %, on the average "
            f"{100 * (np.mean(losses) - 1):.1f} % slower.")


def constant_table(spec, constants, folds, pinning):
    lines = ["| constant | value | error | unit | meaning | fixed by |", "|---|---:|---:|---|---|---|"]
    record = {}
    for name, (_, unit, meaning) in spec.items():
        # Half the spread over all folds of both cross-validations: what a shape or a source more or less changes.
        spread = [fold[name] for fold in folds]
        error = (max(spread) - min(spread)) / 2
        lines.append(f"| {name} | {constants[name]:.4g} | {error:.2g} | {unit} | {meaning} | {pinning[name]} |")
        record[name] = {"value": constants[name], "error": float(f"{error:.2g}"), "unit": unit}
    return lines, record


def find_pinning(spec, constants, time, rows):
    """For every constant the three rows whose predictions react most to it."""
    base = np.log(time(constants))
    found = {}
    for name in spec:
        moved = np.abs(np.log(time({**constants, name: constants[name] * 1.05})) - base)
        most = [str(rows[i]["id"]) for i in np.argsort(-moved)[:3] if moved[i] > 1e-6]
        reacting = int(np.sum(moved > 0.005))
        found[name] = (", ".join(most) or "no row") + f"; {reacting} rows change by more than 0.5 % where it changes by 5 %"
    return found


def write_cross_check(products, fractions, constants):
    """Predictions of every fourth single product, against which the Rust account is tested."""
    cases = []
    for row in products[::4]:
        kernel = row["kernels"][0]
        loops = [tuple(map(int, loop)) for loop in re.findall(r"c\d (\d+)/(\d+)", kernel["division"])]
        if len(row["kernels"]) > 1 or len(loops) not in (3, 4) or row["category"] == "fp8 linear":
            continue
        (b, m, n, k) = [(1, 1)] * (4 - len(loops)) + loops
        fraction = fractions[row["id"]]
        columns = model.product_columns([kernel], [fraction])
        us = float(model.product_time(constants, columns)[0])
        tile = kernel["tile"]
        cases.append({
            "sizes": [b[0], m[0], n[0], k[0]], "division": [b[1], m[1], n[1], k[1]], "shared": tile["shared_weight"],
            "outer": [not o["interleaved"] for o in tile["operands"]], "fraction": fraction, "us": round(us, 3),
        })
    target = measured_rows.ROOT / "crates/machine/tests/data/product_model.json"
    target.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def main():
    path = sys.argv[1]
    fractions = measured_rows.read_fractions(path)
    rows = measured_rows.predict_rows(path, sys.argv[2] if len(sys.argv) > 2 else "card-2026-09")
    constants = fit_constants(rows, fractions, lambda row: True)
    shapes = {r["id"]: int(hashlib.md5(shape_of(r).encode()).hexdigest(), 16) % SHAPE_FOLDS for r in rows}
    plain_source = lambda r: r["source"].split(" (commit")[0]
    counts = defaultdict(int)
    for row in rows:
        counts[plain_source(row)] += 1
    small = lambda r: counts[plain_source(r)] < ROWS_OF_A_SOURCE
    sources = {r["id"]: "the others" if small(r) else plain_source(r) for r in rows}
    with tempfile.TemporaryDirectory() as folder:
        fitted = list(judge_preset(path, constants, folder).values())
        by_shape, shape_folds = leave_out(path, rows, fractions, shapes, folder)
        by_source, source_folds = leave_out(path, rows, fractions, sources, folder)
    by_shape, by_source = list(by_shape.values()), list(by_source.values())
    report = ["# Kernel times: fit and cross-validation", "",
              "Written by `fit_kernel_times.py`. Figures are those of `zellige bench fidelity`, thus of the account in Rust with",
              "the layouts and divisions of the compiler, each with a preset whose constants were fitted without the rows that",
              "are counted. \"RMS of log\" is the root mean square of the natural logarithm of predicted over measured time.",
              "Rows of attention, small graphs, Granite, rates and the older stack take no part in any fit."]
    for title, judged in ((f"Shapes left out, {SHAPE_FOLDS} folds", by_shape),
                          (f"Sources left out, {len(source_folds)} folds", by_source), ("Fitted", fitted)):
        report += ["", f"## {title}", ""] + category_table(judged)
    report += ["", "## Order of divisions within a shape", "", order_line("shapes left out", by_shape),
               order_line("sources left out", by_source), order_line("fitted", fitted)]
    streams, products = measured_rows.select_rows(rows)
    plain, mixed = Kernels(streams, fractions), Kernels(products, fractions)
    beside = mixed.stream_sum(constants["stream"]) + mixed.known
    record = {"block": model.BLOCK}
    for name, spec, time, members in (
        ("matmul", model.MATMUL_CONSTANTS, lambda c: mixed.product_sum(c) + beside, products),
        ("stream", model.STREAM_CONSTANTS, lambda c: plain.stream_sum(c) + plain.known, streams),
    ):
        pinning = find_pinning(spec, constants[name], time, members)
        folds = [fold[name] for fold in shape_folds + source_folds]
        lines, record[name] = constant_table(spec, constants[name], folds, pinning)
        report += ["", f"## Constants: {name}", ""] + lines
    report += ["", "Blocks: " + ", ".join(f"{key} {value}" for key, value in model.BLOCK.items()) + "."]
    report += ["", "## Worst rows, shapes left out", "", "| id | measured | predicted | category | what |", "|---:|---:|---:|---|---|"]
    worst = sorted((r for r in by_shape if r["stack"] == "torch-spyre"), key=lambda r: -abs(np.log(r["ratio"])))
    for row in worst[:25]:
        report.append(f"| {row['id']} | {row['measured']:.1f} | {row['predicted']:.1f} | {row['category']} | {row['what'][:70]} |")
    report += ["", (HERE / "unexplained.md").read_text().rstrip()]
    write_cross_check(products, fractions, constants["matmul"])
    (HERE / "report.md").write_text("\n".join(report) + "\n")
    (HERE / "constants.json").write_text(json.dumps(record, indent=1) + "\n")
    print("\n".join(report))


if __name__ == "__main__":
    main()
