"""CuTe's algebra beside tensor-layouts, a Python implementation of it on PyPI."""

from __future__ import annotations

import importlib.metadata

import tensor_layouts as cute
from common import Tally, arguments


def flat(tree) -> list:
    return [tree] if isinstance(tree, int) else [leaf for part in tree for leaf in flat(part)]


def text(tree) -> str:
    return str(tree) if isinstance(tree, int) else "(" + ",".join(text(t) for t in tree) + ")"


def written(layout) -> str:
    shape, stride = layout
    return f"{text(shape)}:{text(stride)}"


def read(words: str):
    """Shape and stride of a text of integers."""
    tree = lambda s: eval(s.replace(",)", ")").replace(")", ",)")) if s.startswith("(") else int(s)  # noqa: E731
    shape, stride = words.split(":")
    return tree(shape), tree(stride)


def at(layout, index: int) -> int:
    """The definition: the index is split over the leaves, the first fastest; the last leaf goes on."""
    shape, stride = flat(layout[0]), flat(layout[1])
    offset = 0
    for k, (n, s) in enumerate(zip(shape, stride)):
        digit = index if k + 1 == len(shape) else index % n
        index //= n
        offset += digit * s
    return offset


def number(layout) -> int:
    out = 1
    for n in flat(layout[0]):
        out *= n
    return out


def offsets(layout) -> list:
    return [at(layout, i) for i in range(number(layout))]


def mode(layout, k: int):
    """One of the top modes; a layout of one number is its own only mode."""
    shape, stride = layout
    return (shape, stride) if isinstance(shape, int) else (shape[k], stride[k])


def modes(layout) -> int:
    return 1 if isinstance(layout[0], int) else len(layout[0])


def shape_like(rng, most: int):
    """A random shape, some modes of it nested."""
    parts, left = [], most
    for _ in range(rng.choice([1, 2, 2, 3])):
        if rng.random() < 0.25:
            part = tuple(rng.choice([1, 2, 3, 4]) for _ in range(2))
        else:
            part = rng.choice([1, 2, 3, 4, 4, 6, 8])
        n = 1
        for leaf in flat(part):
            n *= leaf
        if n <= left:
            parts.append(part)
            left //= n
    if not parts:
        return rng.choice([2, 3, 4])
    return parts[0] if len(parts) == 1 and isinstance(parts[0], int) else tuple(parts)


def nest(shape, values: list):
    if isinstance(shape, int):
        return values.pop(0)
    return tuple(nest(part, values) for part in shape)


def random_layout(rng, most: int = 64):
    """A layout: dense in a random order, with gaps, with strides of 0, or with any strides."""
    shape = shape_like(rng, most)
    leaves = flat(shape)
    order = list(range(len(leaves)))
    rng.shuffle(order)
    kind = rng.choice(["dense", "dense", "column", "gaps", "zero", "any"])
    strides, run = [0] * len(leaves), 1
    if kind == "column":
        order = list(range(len(leaves)))
    for k in order:
        strides[k] = run
        run *= leaves[k]
        if kind == "gaps":
            run *= rng.choice([1, 1, 2, 3])
    if kind == "zero":
        strides[rng.randrange(len(strides))] = 0
    if kind == "any":
        strides = [rng.choice([0, 1, 2, 3, 4, 6, 8, 12]) for _ in leaves]
    return shape, nest(shape, strides)


def injective(layout) -> bool:
    found = offsets(layout)
    return len(set(found)) == len(found)


# Laws, by enumeration: whether a result is right.


def is_composition(a, b, r) -> bool:
    """R(i) = A(B(i)), with the size of B."""
    return number(r) == number(b) and offsets(r) == [at(a, i) for i in offsets(b)]


def is_complement(a, most: int, r) -> bool:
    """Offsets that are ordered, move A to places that never meet, and with them fill everything below `most`."""
    found, image = offsets(r), offsets(a)
    moving = [n for n, d in zip(flat(a[0]), flat(a[1])) if d != 0]
    apart = len(set(image)) == number((tuple(moving) or 1, 0))
    ordered = found[0] == 0 and all(x < y for x, y in zip(found, found[1:]))
    sums = {x + y for x in set(image) for y in found}
    return apart and ordered and len(sums) == len(set(image)) * len(found) and sums.issuperset(range(most))


def is_right_inverse(a, r) -> bool:
    return [at(a, i) for i in offsets(r)] == list(range(number(r)))


def is_left_inverse(a, r) -> bool:
    return [at(r, i) for i in offsets(a)] == list(range(number(a)))


def is_division(a, b, r) -> bool:
    """R = A o (B, B*), B* the complement of B in the size of A; tiles that do not divide A go past its end."""
    rest = attempt(cute.complement, cute.Layout(*b), number(a))
    if isinstance(rest, Exception) or not is_complement(b, number(a), (rest.shape, rest.stride)):
        return False
    both = ((b[0], rest.shape), (b[1], rest.stride))
    return offsets(r) == [at(a, i) for i in offsets(both)]


def is_product(a, b, r) -> bool:
    """The first mode is A; the second has the shape of B and moves A to places of its own."""
    first, second = mode(r, 0), mode(r, 1)
    if offsets(first) != offsets(a) or number(second) != number(b):
        return False
    moved: dict = {}
    if any(moved.setdefault(x, y) != y for x, y in zip(offsets(b), offsets(second))):
        return False
    image, copies = set(offsets(a)), set(moved.values())
    return len(copies) == len(moved) and len({x + y for x in image for y in copies}) == len(image) * len(copies)


def compare(tally, name, ours, theirs, law) -> None:
    """`ours` is an answer, `theirs` a layout or an exception."""
    own = read(ours["ok"]["layout"]) if "ok" in ours else None
    other = None if isinstance(theirs, Exception) else (theirs.shape, theirs.stride)
    if own is None and other is None:
        tally.good()
    elif own is not None and other is not None and (written(own) == written(other) or own == other):
        if law(own):
            tally.good()
        else:
            tally.bad(f"{name}: both break the law", written(own), written(other))
    elif own is not None and law(own):
        if other is None:
            tally.good("it refuses what has an answer", f"{name}: ours is {written(own)}, theirs {theirs}")
        elif not law(other):
            tally.good("its answer breaks the law", f"{name}: ours is {written(own)}, theirs {written(other)}")
        elif offsets(own) == offsets(other):
            # Modes of extent 1 are written otherwise: as the C++ headers have them, which are recorded in tests/data.
            tally.good()
        elif name.startswith("right_inverse") and number(own) > number(other):
            tally.good("its inverse covers less", f"{name}: ours is {written(own)}, theirs {written(other)}")
        else:
            tally.bad(f"{name}: two answers that obey the law", written(own), written(other))
    elif own is None and not law(other):
        if ours["error"]["witness"] is None:
            tally.bad(f"{name}: a refusal without a witness", ours["error"]["message"], written(other))
        else:
            tally.good("its answer breaks the law, and ours refuses with a witness", f"{name}: theirs {written(other)}; {ours['error']['message']}")
    else:
        tally.bad(name, ours.get("error", {}).get("message") or written(own), theirs if other is None else written(other))


def attempt(function, *operands):
    try:
        return function(*operands)
    except Exception as e:  # noqa: BLE001, each of its errors is a refusal
        return e


def main() -> None:
    zellige, rng, cases = arguments(4000)
    tally = Tally(f"cute (tensor-layouts {importlib.metadata.version('tensor-layouts')})")
    for _ in range(cases):
        a = random_layout(rng)
        op = rng.choice(["apply", "coalesce", "composition", "composition", "complement", "right_inverse", "left_inverse", "logical_divide", "by mode", "logical_product", "blocked_product", "raked_product", "swizzle"])
        theirs_a = cute.Layout(*a)
        name = f"{op} of {written(a)}"
        if op == "apply":
            points = zellige.ok("apply", layout=written(a), coords=[[i] for i in range(number(a))])["points"]
            ours = [p[0]["m"] for p in points]
            tally.same(name, ours, [theirs_a(i) for i in range(number(a))])
        elif op == "swizzle":
            # CuTe needs the two fields of bits apart: |S| >= B.
            bits, base = rng.randrange(1, 4), rng.randrange(0, 3)
            shift = bits + rng.randrange(0, 3)
            words = f"Sw<{bits},{base},{shift}> o 0 o {written(a)}"
            points = zellige.ok("apply", layout=words, coords=[[i] for i in range(number(a))])["points"]
            composed = cute.compose(cute.Swizzle(bits, base, shift), theirs_a)
            tally.same(words, [p[0]["m"] for p in points], [composed(i) for i in range(number(a))])
        elif op == "coalesce":
            ours = zellige.ask("coalesce", layout=written(a), notation="cute")
            compare(tally, name, ours, attempt(cute.coalesce, theirs_a), lambda r: offsets(r) == offsets(a))
        elif op == "complement":
            most = rng.choice([1, 2, 3, 4]) * (max(offsets(a)) + 1) + rng.choice([0, 0, 1, 5])
            ours = zellige.ask("complement", layout=written(a), cosize=most, notation="cute")
            theirs = attempt(cute.complement, theirs_a, most)
            compare(tally, f"{name} to {most}", ours, theirs, lambda r: is_complement(a, most, r))
        elif op == "right_inverse":
            ours = zellige.ask("right_inverse", layout=written(a), notation="cute")
            compare(tally, name, ours, attempt(cute.right_inverse, theirs_a), lambda r: is_right_inverse(a, r))
        elif op == "left_inverse":
            ours = zellige.ask("left_inverse", layout=written(a), notation="cute")
            if not injective(a):
                # Theirs is a weaker inverse then, by its documentation; ours names two elements in one place.
                tally.same(f"{name}: a refusal with a witness", "error" in ours and ours["error"]["witness"] is not None, True)
                continue
            compare(tally, name, ours, attempt(cute.left_inverse, theirs_a), lambda r: is_left_inverse(a, r))
        elif op == "composition":
            b = random_layout(rng, 24)
            if max(offsets(b)) >= number(a):
                continue  # Past the end of A ours refuses; CuTe goes on with the last mode.
            ours = zellige.ask("composition", a=written(a), b=written(b), notation="cute")
            theirs = attempt(cute.compose, theirs_a, cute.Layout(*b))
            compare(tally, f"{written(a)} o {written(b)}", ours, theirs, lambda r: is_composition(a, b, r))
        elif op == "logical_divide":
            b = random_layout(rng, 8)
            if max(offsets(b)) >= number(a):
                continue
            for form in ["logical_divide", "zipped_divide", "tiled_divide", "flat_divide"]:
                ours = zellige.ask(form, a=written(a), b=written(b), notation="cute")
                theirs = attempt(getattr(cute, form), theirs_a, cute.Layout(*b))
                compare(tally, f"{form} of {written(a)} by {written(b)}", ours, theirs, lambda r: is_division(a, b, r))
        elif op == "by mode":
            if modes(a) < 2:
                continue
            tiler = [rng.choice([n for n in (1, 2, 3, 4, 6, 8) if number(mode(a, k)) % n == 0]) for k in range(modes(a))]
            for form in ["logical_divide", "zipped_divide", "tiled_divide", "flat_divide"]:
                ours = zellige.ask(form, a=written(a), tiler=[f"{n}:1" for n in tiler], notation="cute")
                theirs = attempt(getattr(cute, form), theirs_a, tuple(cute.Layout(n, 1) for n in tiler))
                compare(tally, f"{form} of {written(a)} by {tiler}", ours, theirs, lambda r: sorted(offsets(r)) == sorted(offsets(a)))
        else:
            b = random_layout(rng, 8)
            moving = [(n, d) for n, d in zip(flat(a[0]), flat(a[1])) if d != 0] or [(1, 0)]
            if not injective((tuple(n for n, _ in moving), tuple(d for _, d in moving))):
                continue  # Without a complement of A there is no product.
            name = f"{op} of {written(a)} and {written(b)}"
            ours = zellige.ask(op, a=written(a), b=written(b), notation="cute")
            most = number(a) * (max(offsets(b)) + 1)
            if "error" in zellige.ask("complement", layout=written(a), cosize=most, notation="cute"):
                # (A, A* o B) without an A*: theirs has none either, whatever its product is.
                rest = attempt(cute.complement, theirs_a, most)
                exists = not isinstance(rest, Exception) and is_complement(a, most, (rest.shape, rest.stride))
                tally.same(f"{name}: a refusal with a witness", ("error" in ours and ours["error"]["witness"] is not None, exists), (True, False))
                continue
            theirs = attempt(getattr(cute, op), theirs_a, cute.Layout(*b))
            if op == "logical_product":
                law = lambda r: is_product(a, b, r)  # noqa: E731
            else:
                # The same copies in another order: those of the logical product, which has its own law.
                whole = zellige.ask("logical_product", a=written(a), b=written(b), notation="cute")
                whole = read(whole["ok"]["layout"]) if "ok" in whole else None
                law = lambda r: whole is not None and is_product(a, b, whole) and sorted(offsets(r)) == sorted(offsets(whole))  # noqa: E731
            compare(tally, name, ours, theirs, law)
    tally.finish()


main()
