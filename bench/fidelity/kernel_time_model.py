"""The account of `zellige_machine::account` for the preset card-2026-09, on arrays of kernels.

The formulas are those of `crates/machine/src/account/product.rs` and `latency.rs`; kernels come from the JSON of
`zellige bench fidelity`. Constants have a first guess, a unit and a meaning; first guesses are round numbers of published
or physical origin.
"""

import numpy as np

STICK = 64
CORES = [1, 4, 8, 16, 32]
PEAK = 204.8
# Scratchpad bytes and element operations of a core in a nanosecond, from the preset `card`.
LX_RATE, SFU_RATE = 192.0, 192.0
# Sizes of blocks are whole numbers of the hardware and of its tiler; they were chosen among powers of two and their
# sums by the fit, and do not take part in it.
BLOCK = {"area": 40960, "columns": 320, "rows": 256, "batch_area": 16384, "batch_columns": 128, "batch_rows": 128,
         "fan_weight": 1.5}

MATMUL_CONSTANTS = {
    "rate": (1100.0, "MAC/ns/core", "sustained rate of the PE array"),
    "split_depth": (0.5, "of the rate", "rate where the depth is split"),
    "narrow": (1.8, "times", "rate of 8-bit elements, of that of 16-bit ones"),
    "read": (150.0, "GB/s", "reading by all cores"),
    "read_again": (0.85, "of the rate", "every pass over an operand after the first"),
    "write": (140.0, "GB/s", "writing the result"),
    "fixed": (1.5, "us", "a kernel without work"),
    "first_chunk": (64.0, "elements", "depth that is read before the computation begins"),
    "intake": (44.0, "GB/s/core", "most that a core takes in of one operand"),
    "gather_intake": (22.0, "GB/s/core", "the same in pieces of 512 bytes of an interleaved operand"),
    "whole_intake": (2.0, "times", "gather_intake where the slice is the whole operand"),
    "partial_sum": (0.005, "ns/element", "a partial sum, per doubling of the cores that split the depth"),
    "unshared_8": (0.55, "of the rate of all", "slices that one core alone needs, 8 cores"),
    "unshared_16": (0.58, "of the rate of all", "the same, 16 cores"),
    "shared_16": (0.95, "of the rate of all", "slices that several cores share, 16 cores"),
    "staging_a": (0.3, "MB", "staging area for interleaved batches of A at a scratchpad share of 0.2"),
    "staging_b": (0.9, "MB", "the same of B"),
    "interleaved_32": (0.9, "of the rate", "interleaved slices, 32 cores"),
    "interleaved_8": (0.25, "of the rate of all", "interleaved slices, up to 8 cores"),
    "interleaved_16": (0.4, "of the rate of all", "the same, 16 cores"),
    "shared_weight": (0.5, "of the excess", "excess of interleaved reading where B is shared by all batches"),
}


def product_columns(kernels, fractions):
    """Kernels with a tile as arrays, with the blocks, which depend on no fitted constant."""
    tiles = [k["tile"] for k in kernels]
    d = {name: np.array([t[name] for t in tiles], float)
         for name in ("rows", "columns", "depth", "batches", "all_batches", "depth_split")}
    d["shared"] = np.array([t["shared_weight"] for t in tiles])
    d["cores"] = np.array([k["cores"] for k in kernels], float)
    d["runs"] = np.array([k["runs"] for k in kernels], float)
    d["written"] = np.array([k["bytes_out"] for k in kernels], float)
    d["sfu"] = np.array([k["core"]["sfu"] + k["core"]["sfu_transcendental"] for k in kernels], float)
    d["fraction"] = np.array(fractions, float)
    for i, x in enumerate("ab"):
        operand = [t["operands"][i] for t in tiles]
        d["bytes_" + x] = np.array([o["bytes"] for o in operand], float)
        d["fan_" + x] = np.array([o["cores"] for o in operand], float)
        d["mixed_" + x] = np.array([o["interleaved"] for o in operand])
        d["resident_" + x] = np.array([o["resident"] for o in operand])
    passes = [plan_passes({name: d[name][i] for name in d}) for i in range(len(kernels))]
    d["pass_a"], d["pass_b"] = (np.array([p[i] for p in passes], float) for i in (0, 1))
    return d


def plan_passes(g):
    """How often the tile reads its slices of A and of B."""
    rows, sticks = int(g["rows"]), int(np.ceil(g["columns"] / STICK))
    unit = 1 if rows <= 64 else 8 if rows <= 256 else 64
    rows = -(-rows // unit) * unit
    batch = g["all_batches"] > 1 and not g["shared"]
    kind = "batch_" if batch else ""
    area, columns, most = (BLOCK[kind + name] for name in ("area", "columns", "rows"))
    fan_a, fan_b, w = g["fan_a"], g["fan_b"], BLOCK["fan_weight"]
    weigh_a = w if not batch and fan_a > 2 * fan_b else 1
    weigh_b = w if not batch and fan_b > 2 * fan_a else 1
    spared = int((fan_a < fan_b) == (not batch))
    best = None
    for height in range(min(rows, most), 0, -1):
        if rows % height:
            continue
        widths = (x for x in range(sticks, 0, -1) if sticks % x == 0)
        width = next((x for x in widths if x * STICK <= max(columns, STICK) and x * STICK * height <= area), None)
        if width is None:
            continue
        passes = (sticks // width, rows // height)
        rank = (weigh_a * rows * passes[0] + weigh_b * sticks * STICK * passes[1], passes[spared])
        if best is None or rank < best[0]:
            best = (rank, passes)
    return best[1] if best else (sticks, rows)


def product_time(c, d, i=slice(None)):
    """Microseconds of one run of every product."""
    g = {name: d[name][i] for name in d}
    split = g["depth_split"] > 1
    narrow = g["bytes_b"] < 1.5 * g["columns"] * g["depth"] * g["batches"]
    rate = c["rate"] * 1e3 * np.where(split, c["split_depth"], 1) * np.where(narrow, c["narrow"], 1)
    compute = g["rows"] * g["columns"] * g["depth"] * g["batches"] / rate
    cores, read_rate = g["cores"], c["read"] * 1e3
    shared_rate = read_rate * np.interp(cores, CORES, [0.25, 0.6, 0.75, c["shared_16"], 1])
    own_rate = read_rate * np.interp(cores, CORES, [0.25, 0.43, c["unshared_8"], c["unshared_16"], 1])
    mixed_rate = read_rate * np.interp(
        cores, [8, 16, 32], [c["interleaved_8"], c["interleaved_16"], c["interleaved_32"]])
    together = np.minimum(g["all_batches"], 4)
    # Batches of a piece of 512 bytes that the core works on anyway.
    least = together / np.minimum(together, g["batches"])
    up_to_four = np.minimum(4, g["batches"]) / g["batches"]

    def operand(x, staging, first):
        own, passes = g["bytes_" + x], g["pass_" + x]
        once = own / g["fan_" + x] * cores
        room = staging * 1e6 * (g["fraction"] / 0.2) ** 2
        # The slice of up to four batches, and of all of them: their geometric mean against the staging area.
        square = own * own * up_to_four
        most = np.where(g["shared"], 1 + (together - 1) * c["shared_weight"], together) if first else together
        excess = least + np.maximum(most - least, 0) * square / (square + room**2)
        plain_rate = np.where(g["fan_" + x] <= 1, np.minimum(own_rate, shared_rate), shared_rate)
        plain = once * (1 + (passes - 1) / c["read_again"]) / plain_rate
        whole = (np.abs(once - own) < 1) & (cores > 1)
        gather = c["gather_intake"] * 1e3 * np.where(whole, c["whole_intake"], 1)
        mixed = np.maximum(once * excess * passes / mixed_rate, own * excess * passes / gather)
        time = np.where(g["mixed_" + x] & (g["all_batches"] > 1), mixed, plain)
        present = ~g["resident_" + x]
        return time * present, own * passes / (c["intake"] * 1e3) * present

    read_a, intake_a = operand("a", c["staging_a"], True)
    read_b, intake_b = operand("b", c["staging_b"], False)
    read = np.maximum(read_a + read_b, np.maximum(intake_a, intake_b))
    first = np.where(split, 0, read * np.minimum(1, c["first_chunk"] / g["depth"]))
    doublings = np.floor(np.log2(np.maximum(1, g["depth_split"])))
    sums = c["partial_sum"] * 1e-3 * g["rows"] * g["columns"] * g["batches"] * doublings
    epilogue = np.where(split, 0, g["sfu"] / (SFU_RATE * 1e3))
    write = g["written"] / (c["write"] * 1e3)
    return c["fixed"] + first + np.maximum(compute, read - first) + sums + epilogue + write


BURSTS = [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
COPY_RUNS = [2, 16, 64, 256, 1024]

STREAM_CONSTANTS = {
    "one_way": (150.0, "GB/s", "only reading or only writing"),
    "balanced": (105.0, "GB/s", "as many bytes read as written"),
    "small_operand": (118.0, "GB/s", "the same where a second operand is a row, a column or a number"),
    "few_1": (0.6, "of all cores", "rate of one core"),
    "few_2": (0.8, "of all cores", "rate of two cores"),
    "few_4": (0.92, "of all cores", "rate of 4 to 16 cores"),
    "derate_8": (0.53, "of all cores", "row reductions on 8 and 16 cores"),
    "intake_row": (16.5, "GB/s/core", "most that a core takes in of a row reduction"),
    "cross_row": (115.0, "GB/s", "reductions across rows"),
    "restickify": (116.0, "GB/s", "a change of the stick dimension"),
    "exchange": (90.0, "GB/s", "an exchange of outer dimensions"),
    "copy_2": (0.95, "of one_way", "a copy of 2 runs"),
    "copy_16": (0.85, "of one_way", "of 16 runs"),
    "copy_64": (0.6, "of one_way", "of 64 runs"),
    "copy_256": (0.45, "of one_way", "of 256 runs"),
    "copy_1024": (0.38, "of one_way", "of 1024 runs"),
    "fixed": (0.6, "us", "a kernel without work"),
    "burst_256": (0.3, "of peak", "runs of 256 bytes"),
    "burst_512": (0.4, "of peak", "of 512"),
    "burst_1024": (0.56, "of peak", "of 1024"),
    "burst_2048": (0.72, "of peak", "of 2048"),
    "burst_4096": (0.76, "of peak", "of 4096"),
    "burst_8192": (0.75, "of peak", "of 8192"),
    "burst_16384": (0.65, "of peak", "of 16384"),
    "burst_32768": (0.6, "of peak", "of 32768"),
    "burst_65536": (0.55, "of peak", "of 65536 and more"),
}
# No row has runs of single sticks that are charged by their length.
ASSUMED_BURST_128 = 0.35


def stream_columns(kernels):
    """Kernels without a tile as arrays."""
    d = {name: np.array([k[name] for k in kernels], float) for name in ("cores", "bytes_in", "bytes_out", "ring_in", "runs")}
    d["kind"] = np.array([k["kind"] if isinstance(k["kind"], str) else "product" for k in kernels])
    granules = lambda core: [(max(128, -(-b["bytes"] // 128) * 128), b["count"])
                             for b in core["reads"] + core["writes"]]
    bursts = [granules(k["core"]) for k in kernels]
    width = max(map(len, bursts), default=1)
    d["lengths"] = np.array([[b for b, _ in x] + [128] * (width - len(x)) for x in bursts], float)
    d["counts"] = np.array([[n for _, n in x] + [0] * (width - len(x)) for x in bursts], float)
    d["own"] = (d["lengths"] * d["counts"]).sum(1)
    d["separate"] = np.array([sum(b["count"] for b in k["core"]["reads"]) * k["cores"] for k in kernels], float)
    d["lx"] = np.array([k["core"]["lx_bytes"] for k in kernels], float)
    d["sfu"] = np.array([k["core"]["sfu"] + k["core"]["sfu_transcendental"] for k in kernels], float)
    return d


def stream_time(c, d):
    """Microseconds of one run of every kernel."""
    kind, cores, into, out = d["kind"], d["cores"], d["bytes_in"], d["bytes_out"]
    total = np.maximum(1, into + out)
    matched = np.minimum(2 * np.minimum(into, out), total) / total
    small = (into + d["ring_in"] > out) & (into // 3 < out // 2)
    inverse = (1 - matched) / c["one_way"] + matched / np.where(small, c["small_operand"], c["balanced"])
    few = np.interp(cores, [1, 2, 4, 16, 32], [c["few_1"], c["few_2"], c["few_4"], c["few_4"], 1])
    derate = np.interp(cores, [1, 4, 8, 16, 32], [1, 1, c["derate_8"], c["derate_8"], 1])
    row = kind == "row_reduction"
    rate = np.where(row, derate, few) / inverse
    single = (d["lengths"] * (d["counts"] > 0)).max(1) <= 128
    runs = np.log2(np.maximum(1, d["separate"]))
    copy = c["one_way"] * np.interp(runs, np.log2(COPY_RUNS), [min(1, c[f"copy_{n}"]) for n in COPY_RUNS])
    own_rate = [(kind == "restickify") & single, kind == "copy", kind == "restickify", kind == "cross_row_reduction"]
    rate = np.select(own_rate, [c["exchange"], copy, c["restickify"], c["cross_row"]], rate)
    share = np.interp(np.log2(d["lengths"]), np.log2(BURSTS),
                      [ASSUMED_BURST_128] + [min(1, c[f"burst_{b}"]) for b in BURSTS[1:]])
    issue = (d["lengths"] * d["counts"] / share).sum(1) / PEAK * cores / 1e3
    memory = np.maximum(d["own"] * cores / rate / 1e3, np.where(np.any(own_rate, axis=0), 0, issue))
    scratchpad = d["lx"] / np.where(row, c["intake_row"], LX_RATE) / 1e3
    busy = (d["own"] > 0) | (d["lx"] > 0)
    return np.maximum(np.maximum(memory, scratchpad), d["sfu"] / SFU_RATE / 1e3) + c["fixed"] * busy
