"""The model of the card's kernel times, in the same exact form as `zellige_machine::account`.

Only sums, products, quotients, comparisons and tables with straight lines between their points: no powers and no
logarithms, so that Rust computes the same numbers with fractions.

A product C[b, m, n] = A[b, m, k] B[b, k, n]
--------------------------------------------
The division gives a core a tile of `mc` rows, `nc` columns and depth `kc`, `bc` times. The tile is computed in blocks
whose sums fit in the accumulators; every block of columns reads the rows of A again, every block of rows those of B.

* Blocks divide the tile evenly. Rows and columns of a block are limited, and so is their product. Among the even
  divisions the one is taken that moves the fewest bytes into a core; the operand that more cores share counts more.
* Operands come from device memory once per pass, the first time at the full rate, and per group of cores that share a slice (multicast); all cores
  share the bandwidth. Slices that no other core needs reach the lower rate that row reductions show too.
* A core takes in no more than `intake` of one operand.
* In the default order of dimensions the batches of a tensor are interleaved stick by stick: memory is read in pieces
  of 512 bytes, of which a core that works on one batch uses a quarter. What fits in the staging area avoids that.
* The first chunk of the depth is read before the computation begins, the rest while it runs.
* A split depth halves the rate of the PE array, and its partial sums travel.
* The result is written afterwards.
"""

import numpy as np

STICK = 64
PARTS = np.array(
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 25, 26, 28, 30, 32, 36, 40, 44, 45, 48,
     50, 52, 56, 60, 64, 72, 80, 90, 96, 100, 128, 200, 256]
)
CORES = [1, 4, 8, 16, 32]
# Sizes of blocks are whole numbers of the hardware and of its tiler; they were chosen among powers of two and their
# sums by the fit, and do not take part in it.
BLOCK = {"area": 40960, "columns": 320, "rows": 256, "batch_area": 16384, "batch_columns": 128, "fan_weight": 1.5}

MATMUL_CONSTANTS = {
    # name: (first guess, unit, meaning). The first guesses are round numbers of published or physical origin.
    "rate": (1100.0, "MAC/ns/core", "sustained rate of the PE array"),
    "split_depth": (0.5, "of the rate", "rate where the depth is split"),
    "read": (150.0, "GB/s", "reading by all cores"),
    "read_again": (0.85, "of the rate", "every pass over an operand after the first"),
    "write": (140.0, "GB/s", "writing the result"),
    "fixed": (1.5, "us", "a kernel without work"),
    "first_chunk": (64.0, "elements", "depth that is read before the computation begins"),
    "intake": (44.0, "GB/s/core", "most that a core takes in of one operand"),
    "gather_intake": (22.0, "GB/s/core", "the same in pieces of 512 bytes of an interleaved operand"),
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


def matmul_columns(rows):
    """The rows as arrays, with the blocks, which depend on no fitted constant."""
    get = lambda f: np.array([f(r) for r in rows], float)
    d = {}
    for i, name in enumerate("BMNK"):
        d[name] = get(lambda r: r["sizes"][i])
    for i, name in enumerate("bmnk"):
        d[name] = get(lambda r: r["division"][i])
    d["shared"] = get(lambda r: r["shared"]) > 0
    for i, name in enumerate(("outer_a", "outer_b", "outer_c")):
        d[name] = get(lambda r: r["outer"][i]) > 0
    d["fraction"] = get(lambda r: r["fraction"])
    d["us"] = get(lambda r: r["us"])
    d["mc"] = np.ceil(d["M"] / d["m"])
    d["nc"] = np.ceil(d["N"] / STICK / d["n"]) * STICK
    d["kc"] = np.ceil(d["K"] / d["k"])
    d["bc"] = np.ceil(d["B"] / d["b"])
    d["cores"] = d["b"] * d["m"] * d["n"] * d["k"]
    d["pass_b"], d["pass_a"] = choose_blocks(d)
    return d


def choose_blocks(d):
    """How often the tile reads its slice of B and of A."""
    sticks = d["nc"] / STICK
    pm, pn = PARTS[:, None, None], PARTS[None, :, None]
    nb, mb = d["nc"] / pn, d["mc"] / pm
    batch = (d["B"] > 1) & ~d["shared"]
    area = np.where(batch, BLOCK["batch_area"], BLOCK["area"])
    columns = np.where(batch, BLOCK["batch_columns"], BLOCK["columns"])
    fits = (nb * mb <= area) & (nb <= columns) & (mb <= BLOCK["rows"])
    fits = fits & (sticks % pn == 0) & (d["mc"] % pm == 0)
    n, m, w = d["n"], d["m"], BLOCK["fan_weight"]
    weight = np.where(n > 2 * m, w, np.where(m > 2 * n, 1 / w, np.where(n >= m, 1.001, 0.999)))
    moved = np.where(fits, d["mc"] * pn * weight + d["nc"] * pm, np.inf)
    flat = moved.reshape(-1, len(sticks))
    best = flat.argmin(0)
    assert np.isfinite(flat.min(0)).all(), "a tile that no even block divides"
    return PARTS[best // len(PARTS)].astype(float), PARTS[best % len(PARTS)].astype(float)


def matmul_terms(c, d, i=slice(None)):
    """Every term of the sum in microseconds."""
    g = {name: d[name][i] for name in d}
    B, M, N, K = g["B"], g["M"], g["N"], g["K"]
    a, w, o = 2 * B * M * K, 2 * B * K * N, 2 * B * M * N
    a_core, w_core = a / (g["b"] * g["m"] * g["k"]), w / (g["b"] * g["n"] * g["k"])
    split = g["k"] > 1
    compute = g["mc"] * g["nc"] * g["kc"] * g["bc"] / (c["rate"] * 1e3 * np.where(split, c["split_depth"], 1))
    cores = g["cores"]
    shared_rate = c["read"] * 1e3 * np.interp(cores, CORES, [0.25, 0.6, 0.75, c["shared_16"], 1])
    own_rate = c["read"] * 1e3 * np.interp(cores, CORES, [0.25, 0.43, c["unshared_8"], c["unshared_16"], 1])
    mixed_rate = c["read"] * 1e3 * np.interp(cores, [8, 16, 32], [c["interleaved_8"], c["interleaved_16"], c["interleaved_32"]])
    batch = B > 1
    mixed_a, mixed_b = batch & ~g["outer_a"], batch & ~g["outer_b"] & ~g["shared"]
    together = np.minimum(B, 4)
    # Batches of a piece of 512 bytes that the core works on anyway.
    used = np.minimum(together, g["bc"])
    least = together / used

    def excess(core_bytes, staging):
        # The core's slice of up to four batches, and of all of them: their geometric mean against the staging area.
        four = core_bytes / g["bc"] * np.minimum(4, g["bc"])
        room = staging * 1e6 * (g["fraction"] / 0.2) ** 2
        x = core_bytes * four / room**2
        return x / (1 + x)

    most_a = np.where(g["shared"], 1 + (together - 1) * c["shared_weight"], together)
    over_a = np.where(mixed_a, least + np.maximum(most_a - least, 0) * excess(a_core, c["staging_a"]), 1)
    over_b = np.where(mixed_b, least + (together - least) * excess(w_core, c["staging_b"]), 1)
    fan_a, fan_b = g["n"], g["m"] * np.where(g["shared"], g["b"], 1)

    def reading(total, core_bytes, passes, over, mixed, fan):
        plain = total * (1 + (passes - 1) / c["read_again"]) / np.where(fan == 1, np.minimum(own_rate, shared_rate), shared_rate)
        gathered = np.maximum(
            total * over * passes / mixed_rate, core_bytes * over * passes / (c["gather_intake"] * 1e3)
        )
        return np.where(mixed, gathered, plain)

    read_a = reading(a, a_core, g["pass_a"], over_a, mixed_a, fan_a)
    read_b = reading(w, w_core, g["pass_b"], over_b, mixed_b, fan_b)
    intake = np.maximum(a_core * g["pass_a"], w_core * g["pass_b"]) / (c["intake"] * 1e3)
    read = np.maximum(read_a + read_b, intake)
    first = np.where(split, 0, read * np.minimum(1, c["first_chunk"] / g["kc"]))
    rest = read - first
    more = np.maximum(compute, rest)
    write = o / (c["write"] * 1e3)
    doublings = np.where(g["k"] >= 2, np.floor(np.log2(np.maximum(g["k"], 1))), 0)
    sums = c["partial_sum"] * 1e-3 * g["mc"] * g["nc"] * g["bc"] * doublings
    return {
        "fixed": np.full(len(compute), c["fixed"]), "first chunk": first, "compute": compute, "read": rest,
        "write": write, "partial sums": sums, "longer": more,
        "read a": read_a, "read b": read_b, "intake": intake,
    }


def matmul_time(c, d, i=slice(None)):
    t = matmul_terms(c, d, i)
    return t["fixed"] + t["first chunk"] + t["longer"] + t["write"] + t["partial sums"]


STREAM_CONSTANTS = {
    "one_way": (150.0, "GB/s", "only reading or only writing"),
    "stream_fixed": (1.5, "us", "a kernel without work"),
    "turn_unary": (0.0057, "ns/B", "turning the bus, per byte matched by one of the other direction"),
    "turn_broadcast": (0.004, "ns/B", "the same with a second operand that all rows or columns share"),
    "turn_binary": (0.006, "ns/B", "the same with two full operands"),
    "rows_4096": (1.02, "times", "4096 rows against 2048, of streams"),
    "rows_16384": (1.08, "times", "16384 rows against 2048"),
    "stream_1": (0.5, "of all cores", "rate of one core"),
    "stream_2": (0.8, "of all cores", "rate of two cores"),
    "stream_4": (0.9, "of all cores", "rate of 4 to 16 cores"),
    "reduce_rows_4096": (0.87, "of the rate", "row reductions of 4096 rows against 2048"),
    "reduce_rows_16384": (0.74, "of the rate", "row reductions of 16384 rows"),
    "reduce_1": (0.11, "of all cores", "row reductions on one core"),
    "reduce_2": (0.22, "of all cores", "on two"),
    "reduce_4": (0.42, "of all cores", "on four"),
    "reduce_8": (0.53, "of all cores", "on 8 and 16"),
    "cross_row": (115.0, "GB/s", "reductions across rows"),
    "transpose": (116.0, "GB/s", "a change of the stick dimension"),
    "outer_2": (67.0, "GB/s", "exchange of two outer dimensions, runs of 256 bytes"),
    "outer_4": (72.0, "GB/s", "runs of 512 bytes"),
    "outer_8": (90.0, "GB/s", "runs of 1024 bytes and more"),
    "cat_columns": (106.0, "GB/s", "concatenation along the sticks"),
    "cat_rows_512": (90.0, "GB/s", "concatenation across sticks, 8 of them in a row"),
    "cat_rows_2048": (68.0, "GB/s", "32 of them"),
    "cat_rows_8192": (53.0, "GB/s", "128 of them"),
    "cat_rows_32768": (40.0, "GB/s", "512 of them"),
}


def stream_columns(rows):
    d = {name: np.array([r[name] for r in rows], float) for name in ("read", "written", "rows", "columns", "mid", "cores", "us")}
    d["kind"] = np.array([r["kind"] for r in rows])
    return d


def stream_time(c, d, i=slice(None)):
    g = {name: d[name][i] for name in d}
    kind, cores = g["kind"], g["cores"]
    all_bytes, matched = g["read"] + g["written"], np.minimum(g["read"], g["written"])
    turn = np.select(
        [kind == "unary", kind == "broadcast", kind == "binary"],
        [c["turn_unary"], c["turn_broadcast"], c["turn_binary"]], 0,
    )
    share = np.interp(cores, [1, 2, 4, 16, 32], [c["stream_1"], c["stream_2"], c["stream_4"], c["stream_4"], 1])
    rows = np.interp(g["rows"], [2048, 4096, 16384], [1, c["rows_4096"], c["rows_16384"]])
    stream = (all_bytes / c["one_way"] + turn * matched) * rows / share / 1e3
    derate = np.interp(
        cores, [1, 2, 4, 8, 16, 32],
        [c["reduce_1"], c["reduce_2"], c["reduce_4"], c["reduce_8"], c["reduce_8"], 1],
    )
    # The result has a stick per row, so rows cost bytes of the other direction; few cores hide that.
    by_rows = np.interp(g["rows"], [2048, 4096, 16384], [1, c["reduce_rows_4096"], c["reduce_rows_16384"]])
    reduction = all_bytes / (c["one_way"] * 1e3 * derate * by_rows)
    outer = np.interp(g["mid"], [2, 4, 8], [c["outer_2"], c["outer_4"], c["outer_8"]])
    cat = np.interp(
        g["columns"], [512, 2048, 8192, 32768],
        [c["cat_rows_512"], c["cat_rows_2048"], c["cat_rows_8192"], c["cat_rows_32768"]],
    )
    time = np.select(
        [kind == "row_reduction", kind == "cross_row", kind == "transpose", kind == "transpose_outer",
         kind == "cat_columns", kind == "cat_rows"],
        [reduction, all_bytes / (c["cross_row"] * 1e3), all_bytes / (c["transpose"] * 1e3), all_bytes / (outer * 1e3),
         all_bytes / (c["cat_columns"] * 1e3), all_bytes / (cat * 1e3)],
        stream,
    )
    return c["stream_fixed"] + time
