"""Triton's linear layouts, layout attributes and their spellings beside the Triton wheel, on the CPU.

The library ends its process on misuse, so it runs in one of its own (`--child`), which is started again after that.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile


def child() -> None:
    """Answers lines of JSON by Triton."""
    import triton
    from triton._C.libtriton import gluon_ir, ir
    from triton._C.libtriton.linear_layout import LinearLayout

    context = ir.context()
    ir.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)

    def linear(v):
        names, sizes = [d for d, _ in v["out"]], [n for _, n in v["out"]]
        return LinearLayout.from_bases([(d, b) for d, b in v["in"]], names, sizes, False)

    def written(layout):
        return {"in": [[d, [list(x) for x in b]] for d, b in layout.bases], "out": [[d, n] for d, n in layout.out_dims]}

    def attribute(v):
        name, *fields = v
        return getattr(builder, f"get_{name}_layout")(*[attribute(f) if isinstance(f, list) and f and isinstance(f[0], str) else f for f in fields])

    def answer(q):
        if q["kind"] == "version":
            return triton.__version__
        if q["kind"] == "attribute":
            found = builder.to_linear_layout(attribute(q["layout"]), q["shape"])
            names = {"register": "reg_bases", "lane": "lane_bases", "warp": "warp_bases", "offset": "offset_bases", "block": "block_bases"}
            ins = [[d, [list(b) for b in getattr(found, f)]] for d, f in names.items() if hasattr(found, f)]
            return {"in": ins, "out": [[f"dim{k}", n] for k, n in enumerate(q["shape"])]}
        if q["kind"] == "text":
            with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
                file.write("module { tt.func @f(%a: tensor<" + "x".join(map(str, q["shape"])) + f"xf32, {q['text']}>) {{ tt.return }} }}")
                file.flush()
                parsed = ir.parse_mlir_module(file.name, context)
            if q.get("linear"):
                argument = parsed.get_function("f").args(0)
                found = builder.to_linear_layout(builder.get_gluon_layout_from_tensor(argument)._to_ir(builder), q["shape"])
                return repr(found)
            module = str(parsed)
            # Aliases are printed above the module, and stand for attributes inside of others too.
            lines = [line.partition(" = ") for line in module.splitlines() if line.startswith("#")]
            found = module.split("f32, ")[1].split("> loc(")[0].split(">)")[0]
            for name, _, text in sorted(lines, reverse=True):
                found = re.sub(rf"{name}\b(?![.\w])", lambda _, text=text: text, found)
            for name, _, text in sorted(lines, reverse=True):
                found = re.sub(rf"{name}\b(?![.\w])", lambda _, text=text: text, found)
            return found
        a = linear(q["a"])
        if q["kind"] == "facts":
            return {"surjective": a.is_surjective(), "injective": a.is_injective(), "invertible": a.is_invertible()}
        if q["kind"] == "apply":
            return [list(dict(a.apply(p)).values()) for p in q["points"]]
        if q["kind"] in ("compose", "invert_and_compose"):
            return written(getattr(a, q["kind"])(linear(q["b"])))
        return written(getattr(a, q["kind"])())

    for line in sys.stdin:
        try:
            reply = {"ok": answer(json.loads(line))}
        except Exception as e:  # noqa: BLE001, each of its errors is a refusal
            reply = {"error": str(e)[:300]}
        print("ANSWER " + json.dumps(reply), flush=True)


class Triton:
    """The library in a process of its own."""

    def __init__(self):
        self.process = None

    def ask(self, **question) -> dict:
        if self.process is None:
            quiet = open(os.devnull, "w")  # noqa: SIM115, as long as the process
            self.process = subprocess.Popen([sys.executable, __file__, "--child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True)
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line[7:])
        self.process.wait()
        self.process = None
        return {"aborted": True}


def power(rng, most: int) -> int:
    return 1 << rng.randrange(most + 1)


def random_linear(rng, ins, outs):
    sizes = [rng.randrange(4) for _ in outs]
    layout = {"in": [], "out": [[d, 1 << s] for d, s in zip(outs, sizes)]}
    bits = [[0] * k + [1 << b] + [0] * (len(outs) - k - 1) for k, s in enumerate(sizes) for b in range(s)]
    rng.shuffle(bits)
    if rng.random() < 0.6:
        # Every bit of the result once, some with others added, over the dimensions: onto, and often invertible.
        for k, d in enumerate(ins):
            take = bits if k + 1 == len(ins) else [bits.pop() for _ in range(rng.randrange(len(bits) + 1))]
            layout["in"].append([d, list(take)])
        bases = [b for _, own in layout["in"] for b in own]
        for k in range(1, len(bases)):
            if rng.random() < 0.3:
                bases[k][:] = [x ^ y for x, y in zip(bases[k], bases[rng.randrange(k)])]
    else:
        for d in ins:
            layout["in"].append([d, [[rng.randrange(1 << s) for s in sizes] for _ in range(rng.randrange(4))]])
    return layout


def at(layout, point) -> list:
    """The definition: the XOR of the bases of the bits that are set."""
    out = [0] * len(layout["out"])
    for dim, bases in layout["in"]:
        for bit, basis in enumerate(bases):
            if point[dim] >> bit & 1:
                out = [x ^ y for x, y in zip(out, basis)]
    return out


def points(layout) -> list:
    names = [d for d, _ in layout["in"]]
    return [dict(zip(names, c)) for c in itertools.product(*(range(1 << len(b)) for _, b in layout["in"]))]


def calls(zellige, triton, tally, rng) -> None:
    a = random_linear(rng, ["register", "lane"], ["dim0", "dim1"])
    sample = rng.sample(points(a), min(16, len(points(a))))
    ours = zellige.ok("linear", call="apply", a=a, points=sample)["points"]
    tally.same(f"apply of {a}: the definition", ours, [at(a, p) for p in sample])
    tally.same(f"apply of {a}", ours, triton.ask(kind="apply", a=a, points=sample).get("ok"))
    facts = zellige.ok("linear", call="facts", a=a)
    theirs = triton.ask(kind="facts", a=a)["ok"]
    tally.same(f"facts of {a}", {k: facts[k] for k in theirs}, theirs)
    b = random_linear(rng, ["dim0", "dim1"], ["offset", "bank"])
    # The dimensions between the two have to fit.
    b["in"] = [[d, own + [[0] * 2] * (int(math.log2(n)) - len(own))] for (d, own), (_, n) in zip(b["in"], a["out"])]
    c = random_linear(rng, ["offset", "bank"], ["dim0", "dim1"])
    c["out"] = [[d, max(n, m)] for (d, n), (_, m) in zip(c["out"], a["out"])]
    wide = {"in": a["in"], "out": c["out"]}
    for call, name, operands in [
        ("compose", "compose", {"a": a, "b": b}),
        ("invert", "invert", {"a": a}),
        ("pseudoinvert", "pseudoinvert", {"a": a}),
        ("invertAndCompose", "invert_and_compose", {"a": wide, "b": c}),
    ]:
        answer = zellige.ask("linear", call=call, **operands)
        case = f"{call} of {json.dumps(operands)}"
        onto = operands.get("b") if call == "invertAndCompose" else a
        if call != "compose" and not zellige.ok("linear", call="facts", a=onto)["surjective"]:
            # Triton asserts it, and the wheel is built without assertions: what comes then is nothing to compare with.
            tally.same(f"{case}: a refusal", answer.get("error", {}).get("kind"), "not_invertible")
            continue
        theirs = triton.ask(kind=name, **operands)
        if "ok" in answer and "ok" in theirs:
            tally.same(case, answer["ok"]["linear"], theirs["ok"])
        elif "ok" in answer:
            found, right = answer["ok"]["linear"], True
            for p in points(found):
                y = dict(zip([d for d, _ in found["out"]], at(found, p)))
                if call == "compose":
                    right &= at(b, dict(zip(["dim0", "dim1"], at(a, p)))) == at(found, p)
                elif call == "invertAndCompose":
                    right &= at(c, y) == at(wide, p)
                else:
                    right &= at(a, y) == list(p.values())
            if right:
                tally.good(f"{call}: it ends the process, or refuses, where there is an answer", case)
            else:
                tally.bad(case, found, theirs)
        elif "ok" in theirs:
            tally.bad(case, answer["error"]["message"], theirs["ok"])
        else:
            tally.good()


def order_of(rng, rank: int) -> list:
    order = list(range(rank))
    rng.shuffle(order)
    return order


def blocks(rng, rank: int) -> list:
    """Bases of the blocks of a cluster: units along some dimensions, in any order, and copies."""
    if rng.random() < 0.7:
        return []
    bases = []
    for d in range(rank):
        bases += [[(1 << bit) * (e == d) for e in range(rank)] for bit in range(rng.randrange(2))]
    bases += [[0] * rank] * rng.randrange(2)
    rng.shuffle(bases)
    return bases


def blocked(rng, rank: int):
    size, lanes, warps = ([power(rng, m) for _ in range(rank)] for m in (2, 3, 1))
    order, cga = order_of(rng, rank), blocks(rng, rank)
    words = f", CGALayout = {cga}" if cga else ""
    text = f"#ttg.blocked<{{sizePerThread = {size}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, order = {order}{words}}}>"
    return text, ["blocked", size, lanes, warps, order, cga], [power(rng, 6) for _ in range(rank)]


def mma(rng):
    warps, shape = [power(rng, 2), power(rng, 2)], [power(rng, 4) * 16, power(rng, 4) * 8]
    if rng.random() < 0.5:
        version, instr = [2, 0], [16, 8]
    else:
        version, instr, warps = [3, 0], [16, 8 * power(rng, 4), 16], [4, power(rng, 1)]
    cga = blocks(rng, 2)
    words = f", CGALayout = {cga}" if cga else ""
    text = f"#ttg.nvidia_mma<{{versionMajor = {version[0]}, versionMinor = 0, warpsPerCTA = {warps}{words}, instrShape = {instr}}}>"
    return text, ["mma", version, warps, cga, instr], shape


def mfma(rng):
    version = rng.choice([1, 2, 3, 4])
    instr = rng.choice([[32, 32, 8], [16, 16, 16]])
    warps, turned = [power(rng, 2), power(rng, 2)], rng.random() < 0.5
    text = f"#ttg.amd_mfma<{{version = {version}, warpsPerCTA = {warps}, instrShape = {instr}, isTransposed = {str(turned).lower()}}}>"
    return text, ["amd_mfma", version, warps, instr, turned, [], [1, 1], 32], [power(rng, 5) * 8, power(rng, 5) * 8]


def attribute(rng):
    """A random attribute: its text, how Gluon builds it, a shape for it."""
    kind = rng.choice(["blocked", "blocked", "slice", "mma", "dot", "dot blocked", "swizzled", "nvmma", "mfma"])
    if kind == "blocked":
        return blocked(rng, rng.choice([1, 2, 2, 3]))
    if kind == "slice":
        rank = rng.choice([2, 3])
        text, parent, shape = blocked(rng, rank) if rng.random() < 0.7 or rank == 3 else mma(rng)
        dim = rng.randrange(rank)
        return f"#ttg.slice<{{dim = {dim}, parent = {text}}}>", ["slice", dim, parent], shape[:dim] + shape[dim + 1 :]
    if kind == "mma":
        return mma(rng)
    if kind == "mfma":
        return mfma(rng)
    if kind == "dot":
        warps, index, width = [power(rng, 2), power(rng, 2)], rng.randrange(2), power(rng, 3)
        parent = ["mma", [2, 0], warps, [], [16, 8]]
        text = f"#ttg.nvidia_mma<{{versionMajor = 2, versionMinor = 0, warpsPerCTA = {warps}, instrShape = [16, 8]}}>"
        return f"#ttg.dot_op<{{opIdx = {index}, parent = {text}, kWidth = {width}}}>", ["dot_operand", index, parent, width], [power(rng, 3) * 16, power(rng, 3) * 16]
    if kind == "dot blocked":
        text, parent, shape = blocked(rng, 2)
        index = rng.randrange(2)
        return f"#ttg.dot_op<{{opIdx = {index}, parent = {text}}}>", ["dot_operand", index, parent, 0], shape
    if kind == "swizzled":
        vec, per, most, order = power(rng, 3), power(rng, 2), power(rng, 3), order_of(rng, 2)
        text = f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per}, maxPhase = {most}, order = {order}}}>"
        return text, ["swizzled_shared", vec, per, most, order, []], [power(rng, 7), power(rng, 7)]
    width, bits, turned = rng.choice([0, 32, 64, 128]), rng.choice([8, 16, 32]), rng.random() < 0.5
    text = f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, transposed = {str(turned).lower()}, elementBitWidth = {bits}}}>"
    return text, ["nvmma_shared", width, bits, turned, False, [], 2], [power(rng, 7), power(rng, 7)]


def attributes(zellige, triton, tally, rng) -> None:
    text, layout, shape = attribute(rng)
    theirs = triton.ask(kind="attribute", layout=layout, shape=shape)
    answer = zellige.ask("linear", call="of", layout=text, shape=shape)
    case = f"{text} over {shape}"
    if "ok" in answer and "ok" in theirs:
        tally.same(case, answer["ok"]["linear"], theirs["ok"])
    elif "ok" in theirs:
        tally.bad(case, answer["error"]["message"], theirs["ok"])
    elif "ok" in answer:
        if shape == [1, 1] and "must not be empty" in theirs.get("error", ""):
            return  # A class of Gluon's Python refuses one element in shared memory.
        tally.bad(f"{case}: Triton refuses", answer["ok"]["linear"], theirs)
    else:
        tally.good()
    # The text is printed as Triton prints it.
    spelled(zellige, triton, tally, text, shape)


def spelled(zellige, triton, tally, text, shape) -> None:
    theirs = triton.ask(kind="text", text=text, shape=shape)
    answer = zellige.ask("parse", layout=text, notation="triton")
    case = f"{text} in tensor<{shape}>: the spelling"
    if "ok" in answer and "ok" in theirs:
        tally.same(case, answer["ok"]["layout"], theirs["ok"])
    elif "ok" in theirs:
        tally.bad(case, answer["error"]["message"], theirs["ok"])
    else:
        # Shared memory as the layout of a tensor is refused by the type, not by the attribute.
        tally.good()


def damaged(zellige, triton, tally, rng) -> None:
    """An attribute with a mistake in it."""
    text, _, shape = attribute(rng)
    if "shared" in text:
        return
    parts = text.split(" ")
    k = rng.randrange(len(parts))
    change = rng.choice(["drop", "number", "twice"])
    if change == "drop":
        parts[k] = ""
    elif change == "number":
        digits = [i for i, ch in enumerate(parts[k]) if ch.isdigit()]
        if not digits:
            return
        i = rng.choice(digits)
        parts[k] = parts[k][:i] + rng.choice(["0", "3", "16", "-1", "x"]) + parts[k][i + 1 :]
    else:
        parts[k] = parts[k] + " " + parts[k]
    broken = " ".join(parts)
    theirs = triton.ask(kind="text", text=broken, shape=shape)
    answer = zellige.ask("parse", layout=broken, notation="triton")
    case = f"{broken} in tensor<{shape}>: the spelling"
    if "ok" in answer and "ok" in theirs:
        tally.same(case, answer["ok"]["layout"], theirs["ok"])
    elif "ok" in theirs and "has no instruction of the shape" in answer["error"]["message"]:
        tally.good("its parser accepts an instruction that there is not", f"{case}: {answer['error']['message']}")
    elif "ok" in theirs and "ok" not in triton.ask(kind="text", text=broken, shape=shape, linear=True):
        tally.good("its parser accepts an attribute that has no layout", f"{case}: {answer['error']['message']}")
    elif "ok" in theirs:
        tally.bad(case, answer["error"]["message"], theirs["ok"])
    elif "ok" in answer:
        # Theirs refuses: because of the attribute, or because of the tensor that it is for?
        right = zellige.ask("linear", call="of", layout=broken, shape=shape)
        if "ok" in right:
            tally.bad(f"{case}: Triton refuses", answer["ok"]["layout"], theirs)
        else:
            tally.good()
    else:
        tally.good()


def main() -> None:
    from common import Tally, arguments

    zellige, rng, cases = arguments(400)
    triton = Triton()
    tally = Tally(f"triton (triton {triton.ask(kind='version')['ok']})")
    for _ in range(cases):
        calls(zellige, triton, tally, rng)
        attributes(zellige, triton, tally, rng)
        damaged(zellige, triton, tally, rng)
    tally.finish()


if "--child" in sys.argv:
    child()
else:
    main()
