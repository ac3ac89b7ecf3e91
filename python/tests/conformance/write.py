"""Runs every walk and writes docs/conformance.md. With `--known` it also writes the entries of known.py.

    python python/tests/conformance/write.py [--known] [--from FOLDER]

The walks leave their outcomes in FOLDER, one file of JSON lines each; `--from` reads them there again.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PARTS = ("operators", "modules", "programs")
KINDS = ("native", "cpu", "refused", "wrong", "crash")
TITLES = {"native": "native", "cpu": "on the CPU", "refused": "refused", "wrong": "wrong", "crash": "crash"}
DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")

# (part of the entry, part of the message, the cause in words); the first that fits is taken.
CAUSES = [
    (r"addc(mul|div) (float16|bfloat16)", r"not nan", "zero times an infinity is zero in 16 bits of the card, which have no infinity"),
    (r"polygamma", r"inf at", "numbers past 2^32 are infinities in 16 bits of the card"),
    (r"hypot", r"nan at", "an infinity beside a NaN: 16 bits of the card have no infinity"),
    (r"soft_margin_loss (float16|bfloat16)", r"", "an exponential on the way is past 2^32, which is the last number of 16 bits of the card"),
    (r"flash_attention_for_cpu .* compiled", r"result 1", "the compiler has its own second result, in another shape and dtype"),
]


def cause(line) -> str:
    """Why an entry is not right, in one line."""
    at, reason = " ".join(line["entry"]), line["reason"]
    for where, what, text in CAUSES:
        if re.search(where, at) and re.search(what, reason):
            return text
    # Numbers change from entry to entry, and say nothing about the cause.
    return re.sub(r"\s+", " ", reason)[:110].replace("|", "/")


def known_text(found: dict) -> str:
    """The entries of known.py, by part, outcome and cause."""
    groups: dict = collections.defaultdict(lambda: collections.defaultdict(list))
    for part in PARTS:
        for line in found[part]:
            if line["kind"] in ("refused", "wrong", "crash"):
                name, dtype, form = line["entry"]
                groups[part, line["kind"], cause(line)][name, dtype].append(f"{form} {line['sample']}")
    out = []
    for (part, kind, why), rows in sorted(groups.items(), key=lambda g: (PARTS.index(g[0][0]), g[0][1], g[0][2])):
        out.append(f"{part} | {kind} | {why}")
        out += [f"  {name} {dtype}: {', '.join(forms)}" for (name, dtype), forms in sorted(rows.items())]
    return "\n".join(out)


def _percent(n, total):
    return f"{n} ({100 * n / total:.1f} %)" if n else "0"


def _table(rows: dict, head: str) -> list:
    out = [f"| {head} | all | " + " | ".join(TITLES[k] for k in KINDS) + " | strides differ |", "|---|" + "---:|" * (len(KINDS) + 2)]
    total = collections.Counter()
    for name, counts in [*rows.items(), ("all", total)]:
        if counts is not total:
            total.update(counts)
        number = sum(counts[k] for k in KINDS)
        if number:
            out.append(f"| {name} | {number} | " + " | ".join(_percent(counts[k], number) for k in KINDS) + f" | {counts['strides']} |")
    return out


def _counted(lines, key) -> dict:
    rows: dict = collections.defaultdict(collections.Counter)
    for line in lines:
        rows[key(line)][line["kind"]] += 1
        rows[key(line)]["strides"] += bool(line["strides"])
    return rows


def document(found: dict) -> str:
    import scalars
    import torch
    from operators import GENERATED, SAMPLES

    numbers: dict = {}
    version = torch.__version__.split("+")[0]
    operators = found["operators"]
    by_dtype = _counted(operators, lambda line: line["entry"][1])
    by_form = _counted(operators, lambda line: line["entry"][2])
    text = [
        "# Conformance",
        "",
        f"PyTorch {version} has lists of its operators and modules with operands to try. Each is run on the CPU and on the",
        "card, and values, dtypes, shapes and gradients are compared, with the device as it is by default. This page is written by",
        "`python python/tests/conformance/write.py`; `./test --long python` fails when an outcome is another one.",
        "",
        "An entry is an operator, a dtype and a form; it is as good as the worst of its samples. From the first",
        f"{GENERATED} that PyTorch makes it takes, evenly, at most " + ", ".join(f"{n} ({form})" for form, n in SAMPLES.items()) + ".",
        "",
        "- **native**: the card does all of it.",
        "- **on the CPU**: right, and at least one operator inside ran on the CPU (`torch.spyre.fallbacks()` names it).",
        "- **refused**: a Python error, where the CPU has a result.",
        "- **wrong**: another value, dtype, shape or gradient.",
        "- **crash**: the process ended, or took more than a minute.",
        "",
        "Not counted: what the CPU refuses too, dtypes that the card does not store (float64, complex, unsigned 16 to 64",
        "bits), and sparse tensors. Random operators are compared by shape and dtype. Results whose",
        "strides differ are counted in a column of their own.",
        "",
        "## Operators by dtype",
        "",
        *_table({d: by_dtype[d] for d in DTYPES if d in by_dtype}, "dtype"),
        "",
        "## Operators by form",
        "",
        *_table(by_form, "form"),
        "",
        "`strided` has operands that are not contiguous, `out` also results that are not; `compiled` is one sample each of",
        "float32, float16 and int64 with `torch.compile(..., backend=\"spyre\")`.",
        "",
        "## Modules",
        "",
        "Results, buffers and gradients of inputs and parameters, in training and not.",
        "",
        *_table(_counted(found["modules"], lambda line: line["entry"][1]), "dtype"),
        "",
        "## Random programs",
        "",
        "Eager programs: views, writes through them, arithmetic; all tensors are compared, and which of them share memory.",
        "Compiled ones: fixed sizes, `dynamic=True` and `mark_dynamic`, two or three sizes one after the other; also what a",
        "write into a result changes in the other results and in the arguments.",
        "",
        *_table(_counted(found["programs"], lambda line: line["entry"][0] if line["entry"][0] == "eager" else f"compiled, {line['entry'][2]}"), "program"),
        "",
    ]
    for dtype, name, number in sorted(scalars.KNOWN, key=str):
        numbers.setdefault((name, str(dtype).removeprefix("torch.")), []).append(str(number))
    for kind, title in (("wrong", "Wrong"), ("crash", "Crashes"), ("refused", "Refused")):
        text += [f"## {title}", ""]
        groups: dict = collections.defaultdict(lambda: collections.defaultdict(set))
        for part in PARTS:
            for line in found[part]:
                if line["kind"] == kind:
                    name = line["entry"][0] if part != "programs" else f"{line['entry'][0]} program {line['entry'][1]}"
                    groups[cause(line)][name].add(line["entry"][1] if part != "programs" else line["entry"][2])
        if kind == "wrong" and numbers:
            listed = ", ".join(f"`{name}` ({dtype} and {', '.join(found)})" for (name, dtype), found in numbers.items())
            text.append(f"- Numbers that the dtype does not hold (`scalars.py`, not in the tables): {listed}.")
        if not groups and not (kind == "wrong" and numbers):
            text += ["None.", ""]
            continue
        for why, names in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
            listed = ", ".join(f"`{name}` ({' '.join(d for d in (*DTYPES, *sorted(where - set(DTYPES))) if d in where)})" for name, where in sorted(names.items()))
            text.append(f"- {why[:1].upper() + why[1:]}: {listed}.")
        text.append("")
    text += [
        "## Reproduce",
        "",
        "```sh",
        "pip install . pytest",
        "pytest python/tests/conformance                      # a sample",
        "ZELLIGE_LONG=1 pytest python/tests/conformance       # all",
        "python python/tests/conformance/write.py             # this page",
        "```",
        "",
        "One entry, in Python, in the folder `python/tests/conformance`:",
        "",
        "```python",
        "import database, operators, torch",
        'print(operators.check("square", torch.float32, "backward", 0))   # operator, dtype, form, number of the sample',
        "import programs",
        "print(programs.Eager(37).source())                                # a program to paste",
        "```",
        "",
        "`known.py` lists every entry that is refused or wrong today with its reason and the number of a sample.",
        "",
    ]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--known", action="store_true", help="write the entries of known.py")
    parser.add_argument("--from", dest="folder", help="read outcomes of an earlier run")
    options = parser.parse_args()
    import walk

    folder, found = options.folder or tempfile.mkdtemp(), {}
    for part in PARTS:
        path = os.path.join(folder, part + ".jsonl")
        if os.path.exists(path):
            with open(path) as file:
                found[part] = [line for line in map(json.loads, file) if "kind" in line]
        else:
            print(f"{part}: outcomes go to {path}", flush=True)
            found[part] = walk.walk(part, path)
    page = os.path.join(ROOT, "docs", "conformance.md")
    with open(page) as file:
        # The part about notations is written by crates/cli/tests/conformance.rs, that about ONNX by crates/onnx/tests/node_tests.rs.
        others = re.search(r"\n## (Notations|ONNX's node tests)\n.*", file.read(), re.DOTALL)
    with open(page, "w") as file:
        file.write(document(found) + (others[0] if others else ""))
    if options.known:
        path = os.path.join(HERE, "known.py")
        with open(path) as file:
            head = file.read().split('KNOWN = """\n')[0]
        with open(path, "w") as file:
            file.write(f'{head}KNOWN = """\n{known_text(found)}\n"""\n')


if __name__ == "__main__":
    main()
