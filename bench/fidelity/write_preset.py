"""Writes crates/machine/presets/card-2026-09.toml from the constants that `fit_kernel_times.py` found.

    python3 bench/fidelity/write_preset.py
"""

import json
import re

from measured_rows import HERE

TARGET = HERE.parent.parent / "crates/machine/presets/card-2026-09.toml"
record = json.loads((HERE / "constants.json").read_text())
pinning = dict(re.findall(r"^\| (\w+) \|.*\| ([^|]*) \|$", (HERE / "report.md").read_text(), re.M))
matmul, stream, block = record["matmul"], record["stream"], record["block"]


def source(group, key):
    return f"fitted: error {group[key]['error']:g}; fixed by rows {pinning[key]}"


def number(x):
    return f"{x:.10f}".rstrip("0").rstrip(".") if x < 1 else f"{x:g}"


def figure(name, value, unit, text):
    return f'{name} = {{ value = {number(value)}, unit = "{unit}", source = "{text}" }}'


def fitted(group, key, unit, name=None, whole=False):
    value = group[key]["value"]
    return figure(name or key, round(value) if whole else value, unit, source(group, key))


def curve(name, points, text):
    listed = ", ".join(f"[{x}, {number(y)}]" for x, y in points)
    return f'{name} = {{ by = "cores", unit = "of the rate of all cores", points = [{listed}], source = "{text}" }}'


def value(group, key):
    return group[key]["value"]


m = lambda key: value(matmul, key)
s = lambda key: value(stream, key)
# A byte in each direction takes two bytes of one direction and one turn.
balanced = 1 / (1 / s("one_way") + s("turn_unary") / 2)
lines = [
    '# The stack of September 2026. Constants with "fitted" in their source were found by',
    "# bench/fidelity/fit_kernel_times.py and written here by write_preset.py; report.md beside them has what they reach on",
    "# shapes and sources that were left out, and the numbers of rows are those of the measured file. The error is half",
    "# the spread of a constant over all folds of both cross-validations.",
    'name = "card-2026-09"',
    'about = "IBM Spyre AIU under the software of September 2026: products by measured mechanisms"',
    'extends = "card-2026-05"',
    "",
    "[pt]",
    "# Interleaved batches have terms of their own below, so that the PT array has one rate.",
    figure("batch_matmul", 1140, "MAC/ns/core", "measured upstream: sustained matmul"),
    "",
    "[sfu]",
    figure("transcendental", 1, "times a plain operation",
           "measured: gelu takes as long as neg on all cores, and a fifth longer on one"),
    "",
    "[memory]",
    fitted(stream, "one_way", "GB/s"),
    figure("balanced", float(f"{balanced:.1f}"), "GB/s",
           f"computed from one_way and the turn of the bus, {source(stream, 'turn_unary')}"),
    fitted(stream, "transpose", "GB/s", "restickify"),
    fitted(stream, "cross_row", "GB/s"),
    fitted(stream, "stream_fixed", "us", "fixed"),
    curve("few_cores",
          [(1, s("stream_1")), (2, s("stream_2")), (4, s("stream_4")), (16, s("stream_4")), (32, 1)],
          f"one core {source(stream, 'stream_1')}; 4 to 16 {source(stream, 'stream_4')}"),
    "",
    "[reduction]",
    curve("derate",
          [(1, s("reduce_1")), (2, s("reduce_2")), (4, s("reduce_4")), (8, s("reduce_8")), (16, s("reduce_8")), (32, 1)],
          f"one core {source(stream, 'reduce_1')}; 8 and 16 {source(stream, 'reduce_8')}"),
    "",
    "[host]",
    figure("launch", 360, "us/bundle",
           "computed: 204 launches of a Granite prefill leave 66.6 ms idle and 244 of a decoded token 94.5 ms, 326 and 387 us "
           "each, and 360 us over both; error 34"),
    "",
    "[product]",
    fitted(matmul, "rate", "MAC/ns/core"),
    fitted(matmul, "split_depth", "times"),
    fitted(matmul, "read", "GB/s"),
    fitted(matmul, "read_again", "times"),
    fitted(matmul, "write", "GB/s"),
    fitted(matmul, "fixed", "us"),
    fitted(matmul, "first_chunk", "elements", whole=True),
    fitted(matmul, "intake", "GB/s/core"),
    fitted(matmul, "gather_intake", "GB/s/core"),
    fitted(matmul, "partial_sum", "ns/element"),
    fitted(matmul, "staging_a", "MB"),
    fitted(matmul, "staging_b", "MB"),
    fitted(matmul, "shared_weight", "times"),
    curve("shared_share", [(1, 0.25), (4, 0.6), (8, 0.75), (16, m("shared_16")), (32, 1)],
          f"at 16 cores {source(matmul, 'shared_16')}; below, the PT array bounds kernels and these are assumptions"),
    curve("own_share", [(1, 0.25), (4, 0.43), (8, m("unshared_8")), (16, m("unshared_16")), (32, 1)],
          f"at 8 cores {source(matmul, 'unshared_8')}; at 16 {source(matmul, 'unshared_16')}; below, assumptions after "
          "reduction.derate"),
    curve("interleaved_share",
          [(8, m("interleaved_8")), (16, m("interleaved_16")), (32, m("interleaved_32"))],
          f"at 8 cores {source(matmul, 'interleaved_8')}; at 16 {source(matmul, 'interleaved_16')}; at 32 "
          f"{source(matmul, 'interleaved_32')}"),
    figure("scratchpad_share", 0.2, "times",
           "published: the default of DXP_LX_FRAC_AVAIL; rows at 0.8 took part in the fit"),
]
for key, name in (("area", "block_area"), ("columns", "block_columns"), ("rows", "block_rows"),
                  ("batch_area", "batch_block_area"), ("batch_columns", "batch_block_columns")):
    lines.append(figure(name, block[key], "elements", "chosen by the fit among few whole numbers"))
lines.append(figure("fan_weight", block["fan_weight"], "times", "chosen by the fit among 1, 1.5, 2 and 4"))
TARGET.write_text("\n".join(lines) + "\n")
