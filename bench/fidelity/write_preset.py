"""Writes crates/machine/presets/card-2026-09.toml from the constants that `fit_kernel_times.py` found.

    python3 bench/fidelity/write_preset.py

`fit_kernel_times.py` uses it too, for a preset of every fold of its cross-validation.
"""

import json
import re

from kernel_time_model import ASSUMED_BURST_128
from measured_rows import HERE

TARGET = HERE.parent.parent / "crates/machine/presets/card-2026-09.toml"


def number(x):
    return f"{x:.10f}".rstrip("0").rstrip(".") if x < 1 else f"{x:g}"


class PresetWriter:
    """The text of a preset: `matmul` and `stream` are constants by name, `source` says where one comes from."""

    def __init__(self, matmul, stream, block, source):
        self.matmul, self.stream, self.block, self.source = matmul, stream, block, source

    def figure(self, name, value, unit, text):
        return f'{name} = {{ value = {number(value)}, unit = "{unit}", source = "{text}" }}'

    def fitted(self, group, key, unit, name=None, whole=False):
        value = getattr(self, group)[key]
        value = max(1, round(value)) if whole else value
        return self.figure(name or key, value, unit, self.source(group, key))

    def curve(self, name, by, unit, points, text):
        listed = ", ".join(f"[{x}, {number(min(1.0, y))}]" for x, y in points)
        return f'{name} = {{ by = "{by}", unit = "{unit}", points = [{listed}], source = "{text}" }}'

    def text(self):
        m, s, block, source = self.matmul, self.stream, self.block, self.source
        all_cores = "of the rate of all cores"
        bursts = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
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
            self.figure("batch_matmul", 1140, "MAC/ns/core", "measured upstream: sustained matmul"),
            "",
            "[sfu]",
            self.figure("transcendental", 1, "times a plain operation",
                        "measured: gelu takes as long as neg on all cores, and a fifth longer on one"),
            "",
            "[memory]",
            self.fitted("stream", "one_way", "GB/s"),
            self.fitted("stream", "balanced", "GB/s"),
            self.fitted("stream", "small_operand", "GB/s"),
            self.fitted("stream", "restickify", "GB/s"),
            self.fitted("stream", "exchange", "GB/s"),
            self.fitted("stream", "cross_row", "GB/s"),
            self.fitted("stream", "fixed", "us"),
            self.curve("few_cores", "cores", all_cores,
                       [(1, s["few_1"]), (2, s["few_2"]), (4, s["few_4"]), (16, s["few_4"]), (32, 1)],
                       f"one core {source('stream', 'few_1')}; two {source('stream', 'few_2')}; 4 to 16 {source('stream', 'few_4')}"),
            self.curve("bursts", "B", "of peak", [(128, ASSUMED_BURST_128)] + [(b, s[f"burst_{b}"]) for b in bursts],
                       "128 B an assumption; the others fitted to runs of rows that 32 cores read side by side, which collide "
                       f"where they are long: 8192 B {source('stream', 'burst_8192')}; 65536 B {source('stream', 'burst_65536')}"),
            self.curve("copy_runs", "runs", "of one way",
                       [(2**i, s[f"copy_{2**i}"]) for i in (1, 4, 6, 8, 10)],
                       f"2 runs {source('stream', 'copy_2')}; 64 {source('stream', 'copy_64')}; 1024 {source('stream', 'copy_1024')}"),
            "",
            # Not fitted here: the law is published, and its rows are few.
            "# Copies between scratchpads. The first three are the law of the stack of August and September; the last two are that of",
            "# its predecessor of June and July, kept for the rows that were measured on it.",
            "[ring]",
            'run_doubling = { value = 3.92, unit = "ns/run", source = "published: fitted upstream to 21 kernels of 0.5 to 4.2 MB, RMS 10 %; error 0.8 by rows 817 and 819, which it meets within 6 %" }',
            'run_saving = { value = 1.14, unit = "ns/run", source = "published with run_doubling; error 0.8" }',
            'walk = { value = 547, unit = "GB/s/core", source = "published with run_doubling; error 24 by rows 820, 821 and 822: 588, 540 and 549 at splits of 2, 4 and 8" }',
            'move_start = { value = 60, unit = "us", source = "fitted: error 6; fixed by rows 810, 813 and 816" }',
            'move_link = { value = 6.6, unit = "GB/s", source = "fitted: error 0.7; fixed by rows 808, 810 and 815, all-to-all and neighbour shift alike" }',
            "",
            "[reduction]",
            self.fitted("stream", "intake_row", "GB/s/core", "intake"),
            self.curve("derate", "cores", all_cores,
                       [(1, 1), (4, 1), (8, s["derate_8"]), (16, s["derate_8"]), (32, 1)],
                       f"8 and 16 cores {source('stream', 'derate_8')}; fewer are bound by what a core takes in"),
            "",
            "[host]",
            self.figure("launch", 360, "us/bundle",
                        "computed: 204 launches of a Granite prefill leave 66.6 ms idle and 244 of a decoded token 94.5 ms, 326 "
                        "and 387 us each, and 360 us over both; error 34"),
            "",
            "[product]",
            self.fitted("matmul", "rate", "MAC/ns/core"),
            self.fitted("matmul", "split_depth", "times"),
            self.fitted("matmul", "narrow", "times"),
            self.fitted("matmul", "read", "GB/s"),
            self.fitted("matmul", "read_again", "times"),
            self.fitted("matmul", "write", "GB/s"),
            self.fitted("matmul", "fixed", "us"),
            self.fitted("matmul", "first_chunk", "elements", whole=True),
            self.fitted("matmul", "intake", "GB/s/core"),
            self.fitted("matmul", "gather_intake", "GB/s/core"),
            self.fitted("matmul", "whole_intake", "times"),
            self.fitted("matmul", "partial_sum", "ns/element"),
            self.fitted("matmul", "staging_a", "MB"),
            self.fitted("matmul", "staging_b", "MB"),
            self.fitted("matmul", "shared_weight", "times"),
            self.curve("shared_share", "cores", all_cores,
                       [(1, 0.25), (4, 0.6), (8, 0.75), (16, m["shared_16"]), (32, 1)],
                       f"at 16 cores {source('matmul', 'shared_16')}; below, the PT array bounds kernels and these are assumptions"),
            self.curve("own_share", "cores", all_cores,
                       [(1, 0.25), (4, 0.43), (8, m["unshared_8"]), (16, m["unshared_16"]), (32, 1)],
                       f"at 8 cores {source('matmul', 'unshared_8')}; at 16 {source('matmul', 'unshared_16')}; below, assumptions"),
            self.curve("interleaved_share", "cores", all_cores,
                       [(8, m["interleaved_8"]), (16, m["interleaved_16"]), (32, m["interleaved_32"])],
                       f"at 8 cores {source('matmul', 'interleaved_8')}; at 16 {source('matmul', 'interleaved_16')}; at 32 "
                       f"{source('matmul', 'interleaved_32')}"),
            self.figure("scratchpad_share", 0.2, "times",
                        "published: the default of DXP_LX_FRAC_AVAIL; rows at 0.8 took part in the fit"),
        ]
        for key, name in (("area", "block_area"), ("columns", "block_columns"), ("rows", "block_rows"),
                          ("batch_area", "batch_block_area"), ("batch_columns", "batch_block_columns"),
                          ("batch_rows", "batch_block_rows")):
            lines.append(self.figure(name, block[key], "elements", "chosen by the fit among few whole numbers"))
        lines.append(self.figure("fan_weight", block["fan_weight"], "times", "chosen by the fit among 1, 1.5, 2 and 4"))
        return "\n".join(lines) + "\n"


def main():
    record = json.loads((HERE / "constants.json").read_text())
    pinning = dict(re.findall(r"^\| (\w+) \|.*\| ([^|]*) \|$", (HERE / "report.md").read_text(), re.M))

    def source(group, key):
        return f"fitted: error {record[group][key]['error']:g}; fixed by rows {pinning[key]}"

    values = [{name: entry["value"] for name, entry in record[group].items()} for group in ("matmul", "stream")]
    TARGET.write_text(PresetWriter(*values, record["block"], source).text())


if __name__ == "__main__":
    main()
