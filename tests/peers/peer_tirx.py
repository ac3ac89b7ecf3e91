"""TIRx layouts beside `tvm.tirx` of apache-tvm: places of elements, and every operator."""

from __future__ import annotations

import importlib.metadata
import operator

from common import Tally, arguments, factors, flatten, size, unflatten
from tvm.tirx.layout import Axis, ComposeLayout, Iter, TileLayout

MEMORY, THREADS = ["m"], ["laneid", "warpid", "m"]
ENOUGH = 256  # Places of a layout that are compared.


class Spec:
    """A layout by its parts, and what it means: shared with neither implementation."""

    def __init__(self, shard, replica=(), offset=None, swizzle=None):
        self.shard, self.replica = [tuple(it) for it in shard], [tuple(it) for it in replica]
        self.offset, self.swizzle = {a: n for a, n in (offset or {}).items()}, swizzle

    def json(self) -> dict:
        tile = {"kind": "tile", "shard": [list(it) for it in self.shard], "replica": [list(it) for it in self.replica], "offset": self.offset}
        if self.swizzle is None:
            return tile
        low, length, distance, inner = self.swizzle
        return {"kind": "compose", "per_element": low, "swizzle_len": length, "atom_len": distance, "swizzle_inner": inner, "tile": tile}

    def tvm(self):
        iters = lambda its: [Iter(e, s, a) for e, s, a in its]  # noqa: E731
        tile = TileLayout.from_iters(iters(self.shard), iters(self.replica), {Axis.get(a): n for a, n in self.offset.items()})
        return tile if self.swizzle is None else ComposeLayout(*self.swizzle[:3], tile, self.swizzle[3])

    @staticmethod
    def of(layout) -> "Spec":
        """The parts of a layout of TVM."""
        swizzle = None
        if isinstance(layout, ComposeLayout):
            swizzle = (int(layout.per_element), int(layout.swizzle_len), int(layout.atom_len), bool(layout.swizzle_inner))
            layout = layout.tile_layout
        iters = lambda its: [(int(it.extent), int(it.stride), it.axis.name) for it in its]  # noqa: E731
        return Spec(iters(layout.shard), iters(layout.replica), {a.name: int(n) for a, n in dict(layout.offset).items()}, swizzle)

    def size(self) -> int:
        return size(e for e, _, _ in self.shard)

    def plain(self) -> "Spec":
        return Spec(self.shard, self.replica, self.offset)

    def places(self, index: int) -> list:
        """The definition: the index over the shard, the last iter fastest; offsets; every copy; the swizzle."""
        point: dict = {}
        for extent, stride, axis in reversed(self.shard):
            point[axis] = point.get(axis, 0) + index % extent * stride
            index //= extent
        for axis, n in self.offset.items():
            point[axis] = point.get(axis, 0) + n
        points = [point]
        for extent, stride, axis in self.replica:
            points = [{**p, axis: p.get(axis, 0) + k * stride} for p in points for k in range(extent)]
        if self.swizzle is not None:
            low, length, distance, inner = self.swizzle
            mask = (1 << length) - 1
            for p in points:
                x = p.get("m", 0) >> low
                x ^= (x & (mask << distance)) >> distance if inner else (x & mask) << distance
                p["m"] = (x << low) + p.get("m", 0) % (1 << low)
        return normal(points)

    def span(self, axis: str) -> int:
        return 1 + max((p.get(axis, 0) for i in range(self.size()) for p in map(dict, self.places(i))), default=0)


def normal(points) -> list:
    """A set of places, sorted, axes at 0 left out."""
    return sorted({tuple(sorted((a, v) for a, v in p.items() if v != 0)) for p in points})


def random_spec(rng, threads: bool) -> Spec:
    axes = THREADS if threads else MEMORY
    extents = factors(rng, 96, rng.choice([1, 2, 3, 4]))
    shard, run = [], {a: 1 for a in axes}
    order = list(range(len(extents)))
    rng.shuffle(order)
    strides = {}
    for k in order:
        axis = rng.choice(axes)
        step = run[axis] if rng.random() < 0.7 else rng.choice([0, 1, 2, 3, 4, 8, 12])
        strides[k] = (step, axis)
        run[axis] = max(run[axis], step * extents[k])
    shard = [(e, *strides[k]) for k, e in enumerate(extents)]
    replica = [(rng.choice([1, 2, 3]), rng.choice([1, 2, 4, 8]), rng.choice(axes)) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
    offset = {a: rng.choice([1, 2, 5]) for a in axes if rng.random() < 0.2}
    swizzle = None
    if not threads and rng.random() < 0.3:
        length = rng.choice([1, 2])
        swizzle = (rng.choice([0, 1, 2]), length, length + rng.choice([0, 1]), rng.random() < 0.7)
    return Spec(shard, replica, offset, swizzle)


def some(total: int) -> list:
    return list(range(0, total, max(1, total // ENOUGH)))


class Comparison:
    def __init__(self, zellige, tally):
        self.zellige, self.tally = zellige, tally

    def applied(self, layout, total: int, at: list) -> list:
        points = self.zellige.ok("apply", layout=layout, shape=[total], coords=[[i] for i in at])["points"]
        return [normal(p) for p in points]

    def is_function(self, layout, places, total: int) -> bool:
        """Whether a layout that was answered has these places."""
        at = some(total)
        parsed = self.zellige.ok("parse", layout=layout)
        return parsed["size"] == total and self.applied(layout, total, at) == [places(i) for i in at]

    def judge(self, name: str, ours, theirs, total, places) -> None:
        """`places` is the law: what the result has to be, or nothing where there is none."""
        right = places is not None and "ok" in ours and ours["ok"]["layout"] is not None and self.is_function(ours["ok"]["layout"], places, total)
        other = None if theirs is None or isinstance(theirs, Exception) else Spec.of(theirs)
        good = other is not None and places is not None and other.size() == total and all(other.places(i) == places(i) for i in some(total))
        shown = ours.get("ok", {}).get("layout") or ours.get("error", {}).get("message") or ours["ok"].get("reason")
        told = str(theirs).splitlines()[0] if theirs is not None else "None"
        if right:
            if good:
                self.tally.good()
            else:
                what = "it refuses what has an answer" if other is None else "its answer breaks the law"
                self.tally.good(f"{name.split(' of ')[0]}: {what}", f"{name}: ours is {shown}, theirs {told[:200]}")
        elif "error" in ours or ours["ok"]["layout"] is None:
            # A refusal is right only where theirs is none or wrong.
            if good:
                self.tally.bad(name, shown, told)
            else:
                self.tally.good() if other is None else self.tally.good(f"{name.split(' of ')[0]}: its answer breaks the law, and ours refuses", f"{name}: {shown}, theirs {told[:200]}")
        else:
            self.tally.bad(f"{name}: ours breaks the law", shown, told)


BINARY = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": operator.floordiv, "FloorMod": operator.mod,
    "BitwiseXor": operator.xor, "BitwiseAnd": operator.and_, "BitwiseOr": operator.or_, "LShift": operator.lshift, "RShift": operator.rshift,
}  # fmt: skip


def number(expression, known=()) -> int:
    """The value of an expression of TVM; `known` are the variables that its lets bind."""
    kind = type(expression).__name__
    if kind in ("int", "IntImm"):
        return int(expression)
    if kind == "Var":
        return next(value for var, value in known if var.same_as(expression))
    if kind == "Let":
        return number(expression.body, ((expression.var, number(expression.value, known)), *known))
    if kind == "Call":
        name = expression.op.name.split(".")[-1]
        a, b = (number(x, known) for x in expression.args)
        return {"bitwise_xor": a ^ b, "bitwise_and": a & b, "shift_left": a << b, "shift_right": a >> b}[name]
    return BINARY[kind](number(expression.a, known), number(expression.b, known))


def attempt(function):
    try:
        return function()
    except Exception as e:  # noqa: BLE001, each of its errors is a refusal
        return e


def tile_places(inner: Spec, outer: Spec, outer_shape, inner_shape):
    """`span * outer(x) + inner(y)` on every axis, then the swizzle of the inner layout."""
    shape = [o * i for o, i in zip(outer_shape, inner_shape)]
    base = inner.plain()
    axes = {a for _, _, a in outer.shard + outer.replica} | set(outer.offset)
    spans = {a: base.span(a) for a in axes}

    def places(index: int) -> list:
        z = unflatten(shape, index)
        x = [c // n for c, n in zip(z, inner_shape)]
        y = [c % n for c, n in zip(z, inner_shape)]
        points = []
        for a in map(dict, outer.places(flatten(outer_shape, x))):
            for b in map(dict, base.places(flatten(inner_shape, y))):
                points.append({k: spans.get(k, 0) * a.get(k, 0) + b.get(k, 0) for k in {*a, *b}})
        if inner.swizzle is None:
            return normal(points)
        return normal([dict(p) for q in points for p in Spec([], (), q, inner.swizzle).places(0)])

    return places, size(shape)


def main() -> None:
    zellige, rng, cases = arguments(1500)
    tally = Tally(f"tirx (apache-tvm {importlib.metadata.version('apache-tvm')})")
    c = Comparison(zellige, tally)
    for _ in range(cases):
        threads = rng.random() < 0.5
        spec = random_spec(rng, threads)
        theirs, ours, total = spec.tvm(), spec.json(), spec.size()
        text = zellige.ok("canonicalize", layout=ours)["layout"]
        shape = factors(rng, total, 3)
        # A shape of the same size: what is left is the last dimension, where it divides.
        shape = shape + [total // size(shape)] if total % size(shape) == 0 else [total]
        op = rng.choice(["apply", "canonicalize", "group", "slice", "slice", "tile", "direct_sum", "permute_dims", "storage", "pack", "unpack", "broadcast"])
        name = f"{op} of {spec.json()}"
        if op == "apply":
            at = some(total)
            own = c.applied(ours, total, at)
            tally.same(f"{name}: the definition", own, [spec.places(i) for i in at])
            # Theirs knows no replicas: its place is the one without a copy.
            if not any(e > 1 and s != 0 for e, s, _ in spec.replica):
                found = []
                for i in at[:32]:
                    point = dict(theirs.apply(*unflatten(shape, i), shape=shape))
                    found.append(normal([{str(a): number(v) for a, v in point.items()}]))
                tally.same(name, own[: len(found)], found)
        elif op == "canonicalize":
            c.judge(name, {"ok": {"layout": text}}, attempt(theirs.canonicalize), total, spec.places)
        elif op == "group":
            if spec.swizzle is not None:
                continue
            answer = zellige.ask("group", layout=ours, shape=shape)
            found = attempt(lambda: theirs.group(shape))
            c.judge(f"group of {spec.json()} by {shape}", answer, found if isinstance(found, Exception) else found[0], total, spec.places)
            if "ok" in answer and not isinstance(found, Exception):
                tally.same(f"{name} by {shape}: separators", answer["ok"]["seps"], [int(n) for n in found[1]])
        elif op == "slice":
            region = []
            for n in shape:
                begin = rng.randrange(n)
                region.append([begin, begin + rng.randrange(1, n - begin + 1)])
            inside = [e - b for b, e in region]
            places = lambda i, inside=inside, region=region: spec.places(flatten(shape, [x + b for x, (b, _) in zip(unflatten(inside, i), region)]))  # noqa: E731
            answer = zellige.ask("slice", layout=ours, shape=shape, region=region)
            found = attempt(lambda: theirs.slice(shape, [tuple(r) for r in region]))
            c.judge(f"slice of {spec.json()} over {shape} at {region}", answer, found, size(inside), places)
            if "ok" in answer and answer["ok"]["layout"] is None:
                general = answer["ok"]["general"]
                tally.same(f"{name} at {region}: the general form", c.is_function(general, places, size(inside)), True)
        elif op in ("tile", "direct_sum"):
            other = random_spec(rng, threads).plain()
            if other.size() * total > 2000:
                continue
            one, two = [other.size()], [total]
            if op == "tile":
                places, count = tile_places(spec, other, one, two)
                answer = zellige.ask("tile", inner=ours, outer=other.json(), outer_shape=one, inner_shape=two)
                found = attempt(lambda: theirs.tile(other.tvm(), one, two))
            else:
                if spec.swizzle is not None:
                    continue
                count = other.size() * total

                def places(i: int) -> list:
                    pairs = [(dict(a), dict(b)) for a in other.places(i // total) for b in spec.places(i % total)]
                    return normal([{k: a.get(k, 0) + b.get(k, 0) for k in {*a, *b}} for a, b in pairs])

                answer = zellige.ask("direct_sum", right=ours, left=other.json(), left_shape=one, right_shape=two)
                found = attempt(lambda: theirs.direct_sum(other.tvm(), one, two))
            c.judge(f"{op} of {spec.json()} with {other.json()}", answer, found, count, places)
        elif op == "permute_dims":
            if spec.swizzle is not None:
                continue
            perm = list(range(len(spec.shard)))
            rng.shuffle(perm)
            moved = Spec([spec.shard[k] for k in perm], spec.replica, spec.offset)
            c.judge(f"permute_dims of {spec.json()} by {perm}", zellige.ask("permute_dims", layout=ours, perm=perm), attempt(lambda: theirs.permute_dims(perm)), total, moved.places)
        elif op == "storage":
            kept = Spec([it for it in spec.shard if it[2] == "m"], [it for it in spec.replica if it[2] == "m"], {a: n for a, n in spec.offset.items() if a == "m"}, spec.swizzle)
            c.judge(name, zellige.ask("storage", layout=ours), attempt(theirs.storage), kept.size(), kept.places)
        elif op == "broadcast":
            if spec.swizzle is not None:
                continue
            axis, num = rng.choice(["m", "laneid"]), rng.choice([2, 3])
            position = rng.randrange(-1, len(spec.shard) + 1)
            shard = list(spec.shard)
            shard.insert(len(shard) if position == -1 else position, (num, 0, axis))
            wide = Spec(shard, spec.replica, spec.offset)
            c.judge(f"broadcast of {spec.json()} by {num} at {position} on {axis}", zellige.ask("broadcast", layout=ours, num=num, pos=position, axis=axis), attempt(lambda: theirs.broadcast(num, position, axis)), total * num, wide.places)
        else:
            num = rng.choice([2, 4])

            def unpacked(i: int) -> list:
                return normal([{**dict(p), "m": dict(p).get("m", 0) * num + i % num} for p in spec.places(i // num)])

            def packed(i: int):
                """The wide places of neighbours that lie side by side, or nothing."""
                wide = set()
                for j in range(num):
                    for p in map(dict, spec.places(i * num + j)):
                        m, rest = p.get("m", 0), {k: v for k, v in p.items() if k != "m"}
                        if m % num != j:
                            return None
                        wide.add(normal([{**rest, "m": m // num}])[0])
                return sorted(wide) if len(wide) == len(spec.places(i * num)) else None

            answer = zellige.ask(op, layout=ours, num=num)
            found = attempt(lambda: getattr(theirs, op)(num))
            if op == "unpack":
                c.judge(f"unpack of {spec.json()} by {num}", answer, found, total * num, unpacked)
            else:
                whole = total % num == 0 and all(packed(i) is not None for i in range(total // num))
                c.judge(f"pack of {spec.json()} by {num}", answer, found, total // num, packed if whole else None)
    tally.finish()


main()
