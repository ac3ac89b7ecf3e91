"""Fits the constants of the kernel-time model to measured rows, and judges it on rows that it has not seen.

    python3 bench/fidelity/fit_kernel_times.py ROWS.json

needs numpy. It prints the report and writes `report.md` and `constants.json` beside itself, and the
predictions that a test of `zellige-machine` compares with. ROWS.json has the format
of `docs/fidelity.md`. Constants are found by cyclic search along each of them in turn on a robust loss of the
logarithm, pulled weakly towards the first guesses; every fold of the cross-validation starts from the first guesses,
because a fold that starts from the full fit does not move and looks as good as the fit itself.
"""

import json
import math
import sys
from collections import defaultdict

import numpy as np

import kernel_time_model as model
import measured_rows

HERE = measured_rows.HERE
NEAR = math.log(1.15)


def search_constants(time, spec, data, index, rounds=18, pull=0.05):
    names = list(spec)
    first = np.log([spec[n][0] for n in names])
    measured = np.log(data["us"][index])

    def loss(x):
        e = (np.log(time(dict(zip(names, np.exp(x))), data, index)) - measured) / 0.12
        return np.sum(2 * (np.sqrt(1 + e * e) - 1)) + pull * np.sum(((x - first) / 0.15) ** 2)

    x, step = first.copy(), np.full(len(first), 0.25)
    best = loss(x)
    for _ in range(rounds):
        for q in range(len(x)):
            moved = False
            for sign in (1, -1):
                y = x.copy()
                y[q] += sign * step[q]
                value = loss(y)
                while value < best - 1e-9:
                    best, x, moved = value, y, True
                    y = x.copy()
                    y[q] += sign * step[q]
                    value = loss(y)
                if moved:
                    break
            step[q] = min(0.5, step[q] * 1.3) if moved else step[q] * 0.5
        if step.max() < 2e-3:
            break
    return dict(zip(names, np.exp(x)))


def leave_out(time, spec, data, groups):
    """Errors of every row under constants fitted without its group, and the constants of every fold."""
    errors, folds = np.zeros(len(data["us"])), []
    for group in sorted(set(groups)):
        out = np.array([g == group for g in groups])
        constants = search_constants(time, spec, data, np.where(~out)[0])
        folds.append(constants)
        errors[out] = np.log(time(constants, data, np.where(out)[0]) / data["us"][out])
    return errors, folds


def summary(errors):
    return {
        "rows": len(errors), "rms": float(np.sqrt(np.mean(errors**2))), "bias": float(np.mean(errors)),
        "near": float(np.mean(np.abs(errors) < NEAR)), "median": float(np.median(np.abs(errors))),
    }


def line(name, errors):
    s = summary(errors)
    return (
        f"| {name} | {s['rows']} | {s['rms']:.3f} | {s['bias']:+.3f} | {s['median']:.3f} | {100 * s['near']:.0f} % |"
    )


HEAD = "| rows | count | RMS of log | bias | median | within 15 % |\n|---|---|---|---|---|---|"


def rank_correlation(a, b):
    rank = lambda x: np.argsort(np.argsort(x))
    return float(np.corrcoef(rank(a), rank(b))[0, 1])


def judge_order(rows, errors):
    """Rank correlation within a shape, and what the preferred division costs against the best measured one."""
    groups = defaultdict(list)
    for i, row in enumerate(rows):
        key = (row["sizes"], row["shared"], tuple(row["outer"]), row["fraction"], row["source"])
        groups[key].append(i)
    ranks, losses = [], []
    for members in groups.values():
        if len({rows[i]["division"] for i in members}) < 4:
            continue
        us = np.array([rows[i]["us"] for i in members])
        predicted = us * np.exp(errors[members])
        ranks.append(rank_correlation(us, predicted))
        losses.append(us[predicted.argmin()] / us.min())
    return ranks, losses


def order_lines(title, rows, errors):
    ranks, losses = judge_order(rows, errors)
    return (
        f"- {title}: {len(ranks)} shapes with at least four divisions; mean rank correlation {np.mean(ranks):.2f}; "
        f"the preferred division is within 5 % of the best measured one for {100 * np.mean(np.array(losses) < 1.05):.0f} %,"
        f" on the average {100 * (np.mean(losses) - 1):.1f} % slower."
    )


def fit_family(name, time, spec, data, shapes, sources):
    constants = search_constants(time, spec, data, np.arange(len(data["us"])), rounds=30)
    fitted = np.log(time(constants, data) / data["us"])
    by_shape, shape_folds = leave_out(time, spec, data, shapes)
    by_source, source_folds = leave_out(time, spec, data, sources)
    return constants, fitted, by_shape, by_source, shape_folds + source_folds


def constant_lines(spec, constants, folds, pinning):
    out = ["| constant | value | error | unit | meaning | fixed by |", "|---|---|---|---|---|---|"]
    record = {}
    for name, (_, unit, meaning) in spec.items():
        value = constants[name]
        # Half the spread over all folds of both cross-validations: what a shape or a source more or less changes.
        spread = [f[name] for f in folds]
        error = (max(spread) - min(spread)) / 2
        out.append(f"| {name} | {value:.4g} | {error:.2g} | {unit} | {meaning} | {pinning.get(name, '')} |")
        record[name] = {"value": float(f"{value:.4g}"), "error": float(f"{error:.2g}"), "unit": unit}
    return out, record


def find_pinning(time, spec, constants, data, rows):
    """For every constant the three rows whose predictions react most to it."""
    base = np.log(time(constants, data))
    out = {}
    for name in spec:
        moved = np.log(time({**constants, name: constants[name] * 1.05}, data)) - base
        order = np.argsort(-np.abs(moved))[:3]
        out[name] = ", ".join(str(rows[i]["id"]) for i in order if abs(moved[i]) > 1e-6) or "no row"
        out[name] += f"; {int(np.sum(np.abs(moved) > 0.005))} rows change by more than 0.5 % where it changes by 5 %"
    return out


def write_cross_check(products, record):
    """Predictions of every fifth row by the rounded constants, against which the Rust account is tested."""
    constants = {name: entry["value"] for name, entry in record["matmul"].items()}
    constants["first_chunk"] = round(constants["first_chunk"])
    chosen = products[::5]
    predicted = model.matmul_time(constants, model.matmul_columns(chosen))
    cases = [
        {"sizes": r["sizes"], "division": r["division"], "shared": r["shared"], "outer": r["outer"][:2],
         "fraction": r["fraction"], "us": round(float(us), 3)}
        for r, us in zip(chosen, predicted)
    ]
    target = HERE.parent.parent / "crates/machine/tests/data/product_model.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def main():
    rows = measured_rows.load_rows(sys.argv[1])
    exclusions = measured_rows.load_exclusions()
    products, left_out = measured_rows.collect_matmuls(rows, exclusions)
    streams = measured_rows.collect_streams(rows, exclusions)
    report = ["# Kernel times: fit and cross-validation", ""]
    report += ["Written by `fit_kernel_times.py`. Every fold starts from the first guesses. \"RMS of log\" is the root",
               "mean square of the natural logarithm of predicted over measured time.", ""]
    record = {}

    data = model.matmul_columns(products)
    shapes = [f"{r['sizes']}{r['shared']}" for r in products]
    sources = [r["source"] for r in products]
    constants, fitted, by_shape, by_source, folds = fit_family(
        "matmul", model.matmul_time, model.MATMUL_CONSTANTS, data, shapes, sources
    )
    plain = data["B"] == 1
    report += ["## Matmul and batch matmul, all divisions", "", HEAD]
    for title, errors in (("fitted", fitted), ("one shape left out", by_shape), ("one source left out", by_source)):
        report += [line(f"all, {title}", errors), line(f"matmul, {title}", errors[plain]),
                   line(f"batch matmul, {title}", errors[~plain])]
    report += ["", order_lines("fitted", products, fitted), order_lines("one shape left out", products, by_shape),
               order_lines("one source left out", products, by_source), ""]
    pinning = find_pinning(model.matmul_time, model.MATMUL_CONSTANTS, constants, data, products)
    lines, record["matmul"] = constant_lines(model.MATMUL_CONSTANTS, constants, folds, pinning)
    report += lines + [""]
    report += ["Blocks: " + ", ".join(f"{k} {v}" for k, v in model.BLOCK.items()) + ".", ""]
    record["block"] = model.BLOCK
    report += ["### Worst rows, one shape left out", "", "| id | sizes B M N K | division b m n k | measured us | predicted us |", "|---|---|---|---|---|"]
    for i in np.argsort(-np.abs(by_shape))[:20]:
        r = products[i]
        report.append(f"| {r['id']} | {r['sizes']} | {r['division']} | {r['us']:.1f} | {r['us'] * math.exp(by_shape[i]):.1f} |")

    data = model.stream_columns(streams)
    shapes = [f"{r['op']} {r['rows']}x{r['columns']}x{r['mid']}" for r in streams]
    # One shape of every operation: operations of one kind share constants, so a size left out is left out of all.
    shapes = [s.split(" ")[1] for s in shapes]
    sources = [r["source"] for r in streams]
    constants, fitted, by_shape, by_source, folds = fit_family(
        "stream", model.stream_time, model.STREAM_CONSTANTS, data, shapes, sources
    )
    report += ["", "## Operations without a product", "", HEAD]
    for title, errors in (("fitted", fitted), ("one shape left out", by_shape), ("one source left out", by_source)):
        report.append(line(f"all, {title}", errors))
        for kind in sorted(set(data["kind"])):
            report.append(line(f"{kind}, {title}", errors[data["kind"] == kind]))
    pinning = find_pinning(model.stream_time, model.STREAM_CONSTANTS, constants, data, streams)
    lines, record["stream"] = constant_lines(model.STREAM_CONSTANTS, constants, folds, pinning)
    report += [""] + lines
    report += ["", "## Rows that take no part", ""]
    reasons = defaultdict(list)
    for identifier, reason in left_out:
        reasons[reason].append(identifier)
    for reason, identifiers in sorted(reasons.items()):
        report.append(f"- {reason}: {len(identifiers)} rows, such as {', '.join(map(str, identifiers[:6]))}")
    write_cross_check(products, record)
    text = "\n".join(report) + "\n"
    (HERE / "report.md").write_text(text)
    (HERE / "constants.json").write_text(json.dumps(record, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
