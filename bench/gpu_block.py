"""Conversions inside a thread block on a GPU: bits and cycles.

    python bench/gpu_block.py --write cases.json [--program PATH]   plans random and named pairs of layouts, no GPU needed
    python bench/gpu_block.py --run cases.json                      compiles and runs them (needs CuPy and a GPU)

Every thread holds the number of its element in every register, calls the function, and the host compares each register of
the destination. Cycles are those of one warp in a loop that feeds the result of a call into the next.
"""

import argparse
import json
import random
import subprocess
import sys

# Pairs that kernels have; the two columns are texts or presets.
NAMED = [
    ("accumulator to operand A", "S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]", "mma-m16n8k16-a", [16, 16], "float16"),
    ("rows to columns of 32x4", "S[(32,4):(1@laneid,1)]", "S[(8,4,4):(4@laneid,1,1@laneid)]", [32, 4], "float32"),
    ("rows to columns of 32x8", "S[(32,8):(1@laneid,1)]", "S[(4,8,8):(8@laneid,1,1@laneid)]", [32, 8], "float16"),
    ("rows of 32x3 to runs", "S[(32,3):(1@laneid,1)]", "S[(3,32):(1,1@laneid)]", [32, 3], "float32"),
    ("blocked to mma accumulator", "S[(8,2,4,4):(4@laneid,1@warpid,1@laneid,1)]", "S[(8,2,4,2,2):(4@laneid,1@warpid,1@laneid,2,1)]", [16, 16], "float32"),
]


def random_pair(rng):
    """The digits of a tensor as lanes, registers and warps, in two orders."""
    factors = [(2, "laneid")] * 5
    factors += [(rng.choice([2, 2, 3]), "m") for _ in range(rng.randrange(4))]
    factors += rng.choice([[], [(2, "warpid")], [(4, "warpid")]])
    step, iters = {}, []
    for extent, axis in factors:
        iters.append((extent, step.setdefault(axis, 1), axis))
        step[axis] *= extent
    size = 1
    for extent, _ in factors:
        size *= extent

    def text():
        order = rng.sample(iters, len(iters))
        stride = ",".join(str(s) if a == "m" else f"{s}@{a}" for _, s, a in order)
        return f"S[({','.join(str(e) for e, _, _ in order)}):({stride})]"

    return "random", text(), text(), [size], rng.choice(["int8", "float16", "float32", "float64"])


def write(path, program, count, seed):
    rng = random.Random(seed)
    pairs = NAMED + [random_pair(rng) for _ in range(count)]
    requests = []
    for name, source, destination, shape, dtype in pairs:
        if not source.startswith("S[") or not destination.startswith("S["):
            texts = []
            for text in (source, destination):
                if text.startswith("S["):
                    texts.append(text)
                    continue
                done = subprocess.run([program, "ask"], input=json.dumps({"op": "presets", "name": text}) + "\n", capture_output=True, text=True, check=True)
                texts.append(json.loads(done.stdout)["ok"]["presets"][0]["layout"])
            source, destination = texts
        for route in (None, "shuffles", "shared"):
            requests.append((name, source, destination, shape, dtype, route))
    lines = []
    for name, source, destination, shape, dtype, route in requests:
        request = {"op": "block_convert", "from": source, "to": destination, "shape": shape, "dtype": dtype, "name": "convert_it"}
        lines.append(json.dumps({**request, **({"route": route} if route else {})}))
        coords = [[i] for i in range(product(shape))]
        for layout in (source, destination):
            lines.append(json.dumps({"op": "apply", "layout": layout, "shape": [product(shape)], "coords": coords}))
    done = subprocess.run([program, "ask"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    cases = []
    for i, (name, source, destination, shape, dtype, route) in enumerate(requests):
        plan, held, wanted = answers[3 * i : 3 * i + 3]
        if "error" in plan:
            # A route that cannot do it is refused; any other refusal is a mistake of this script.
            assert route is not None, plan
            continue
        cases.append({
            "name": name, "from": source, "to": destination, "shape": shape, "dtype": dtype, "asked": route,
            "plan": plan["ok"], "held": slots(held["ok"]), "wanted": slots(wanted["ok"]),
        })
    with open(path, "w") as out:
        json.dump(cases, out)
    print(f"{len(cases)} conversions written")


def product(shape):
    size = 1
    for extent in shape:
        size *= extent
    return size


def slots(answer):
    """(thread, register, element) of every place."""
    found = []
    for element, places in enumerate(answer["points"]):
        for place in places:
            found.append([place.get("laneid", 0) + place.get("tid", 0) + 32 * (place.get("warpid", 0) + place.get("wid_in_wg", 0)), place.get("m", 0), element])
    return found


KERNEL = """
{code}
extern "C" __global__ void once(const unsigned* in, unsigned* out) {{
  extern __shared__ __align__(16) char smem[];
  unsigned src[{ins}], dst[{outs}];
  for (int i = 0; i < {ins}; ++i) src[i] = in[threadIdx.x * {ins} + i];
  for (int i = 0; i < {outs}; ++i) dst[i] = 0xdeadbeef;
  convert_it(src, dst{smem});
  for (int i = 0; i < {outs}; ++i) out[threadIdx.x * {outs} + i] = dst[i];
}}
extern "C" __global__ void cycles(unsigned* out, long long* taken, int turns) {{
  extern __shared__ __align__(16) char smem[];
  unsigned src[{ins}], dst[{outs}];
  for (int i = 0; i < {ins}; ++i) src[i] = threadIdx.x + i;
  for (int i = 0; i < {outs}; ++i) dst[i] = 0;
  long long begun = clock64();
  for (int t = 0; t < turns; ++t) {{
    convert_it(src, dst{smem});
    {sync}
    #pragma unroll
    for (int i = 0; i < {ins}; ++i) src[i] ^= dst[i % {outs}];
  }}
  if (threadIdx.x == 0) taken[0] = clock64() - begun;
  unsigned sum = 0;
  for (int i = 0; i < {ins}; ++i) sum ^= src[i];
  out[threadIdx.x] = sum;
}}
"""

BITS = {"int8": 8, "float16": 16, "float32": 32, "float64": 64}


def run(path):
    import cupy
    import numpy

    with open(path) as file:
        cases = json.load(file)
    wrong = 0
    rows = []
    for case in cases:
        plan, bits = case["plan"], BITS[case["dtype"]]
        kind = numpy.dtype(f"u{bits // 8}")
        threads = plan["threads"]
        registers = plan["registers"]
        words = [max(1, -(-r * bits // 32)) for r in registers]
        held = numpy.zeros((threads, words[0] * 32 // bits if bits <= 32 else words[0] * 32 // 64), kind)
        for thread, register, element in case["held"]:
            held[thread, register] = element * 2654435761 % (1 << min(bits, 63))
        shared = plan["barriers"] > 0
        source = KERNEL.format(code=plan["code"], ins=words[0], outs=words[1], smem=", smem" if shared else "", sync="__syncthreads();" if shared else "")
        module = cupy.RawModule(code=source, options=("-std=c++17",))
        once, cycles = module.get_function("once"), module.get_function("cycles")
        data = cupy.asarray(held.view(numpy.uint32).reshape(-1))
        out = cupy.zeros(threads * words[1], numpy.uint32)
        for kernel in (once, cycles):
            kernel.max_dynamic_shared_size_bytes = max(plan["shared_bytes"], 16)
        once((1,), (threads,), (data, out), shared_mem=max(plan["shared_bytes"], 16))
        got = out.get().reshape(threads, words[1]).view(kind)
        bad = [(t, r) for t, r, e in case["wanted"] if int(got[t, r]) != e * 2654435761 % (1 << min(bits, 63))]
        wrong += bool(bad)
        taken = cupy.zeros(1, numpy.int64)
        sums = cupy.zeros(threads, numpy.uint32)
        best = None
        for _ in range(3):
            cycles((1,), (threads,), (sums, taken, 1000), shared_mem=max(plan["shared_bytes"], 16))
            best = min(best or 1 << 62, int(taken.get()[0]))
        rows.append((case["name"], plan["route"], case["dtype"], plan["shuffles"], plan["selects"] + plan["permutes"], plan["wavefronts"], plan["least_wavefronts"], best / 1000, not bad))
        if bad:
            print("WRONG", case["name"], case["from"], case["to"], case["dtype"], plan["route"], bad[:3])
    print("conversion | route | dtype | shuffles | selects, permutes | wavefronts (least) | cycles")
    for name, route, dtype, shuffles, selects, fronts, least, cycles, _ in rows:
        if name != "random":
            print(f"{name} | {route} | {dtype} | {shuffles} | {selects} | {fronts} ({least}) | {cycles:.1f}")
    print(f"{len(cases) - wrong} of {len(cases)} conversions right")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--run", metavar="FILE")
    parser.add_argument("--program", default="zellige")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.write:
        write(args.write, args.program, args.count, args.seed)
    if args.run:
        sys.exit(1 if run(args.run) else 0)


main()
