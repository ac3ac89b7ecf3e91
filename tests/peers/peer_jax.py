"""Shardings beside JAX on eight devices of the CPU: which device has which slices, and the text of HLO.

XLA layouts beside XLA's own parser, and beside memory that XLA laid out.
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import ctypes  # noqa: E402

import jax  # noqa: E402
import numpy  # noqa: E402
from common import Tally, arguments, coordinates, flatten, size  # noqa: E402
from jax.experimental.layout import Format, Layout  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding  # noqa: E402
from jaxlib import xla_client  # noqa: E402

MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (4,), (2, 3), (2, 1, 4), (6,)]


def entry(axes) -> str:
    if axes is None:
        return "None"
    return f"'{axes}'" if isinstance(axes, str) else "(" + ", ".join(f"'{a}'" for a in axes) + ("," if len(axes) == 1 else "") + ")"


def sharding_case(zellige, tally, rng) -> None:
    sizes = rng.choice(MESHES)
    names = ["x", "y", "z"][: len(sizes)]
    devices = rng.sample(jax.devices(), size(sizes))
    mesh = Mesh(numpy.array(devices).reshape(sizes), tuple(names))
    rank = rng.choice([1, 2, 2, 3])
    # Every mesh axis divides one dimension, or none; several may divide one.
    where = {n: rng.randrange(-1, rank) for n in names}
    spec = []
    for d in range(rank):
        own = [n for n in names if where[n] == d]
        rng.shuffle(own)
        spec.append(None if not own else own[0] if len(own) == 1 and rng.random() < 0.8 else tuple(own))
    while spec and spec[-1] is None and rng.random() < 0.5:
        spec.pop()
    parts = [size(sizes[names.index(n)] for n in names if where[n] == d) for d in range(rank)]
    shape = tuple(p * rng.choice([1, 2, 3]) for p in parts)
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    numbers = [d.id for d in mesh.devices.flat]
    words = "PartitionSpec(" + ", ".join(map(entry, spec)) + ")"
    axes = ", ".join(f"'{n}': {s}" for n, s in zip(names, sizes))
    nested = numpy.array(numbers).reshape(sizes).tolist()
    quoted = ", ".join(f"'{n}'" for n in names) + ("," if len(names) == 1 else "")
    numbered = f"Mesh(device_ids={nested}, axis_names=({quoted})) {words}"

    # Who holds an element, and where: by the slices of JAX.
    all_coordinates = list(coordinates(shape))
    want = {c: [] for c in all_coordinates}
    for device, slices in sharding.devices_indices_map(shape).items():
        ranges = [s.indices(n)[:2] for s, n in zip(slices, shape)]
        inside = [e - b for b, e in ranges]
        for c in coordinates(inside):
            want[tuple(x + b for x, (b, _) in zip(c, ranges))].append((device.id, flatten(inside, c)))
    for text in (f"Mesh({axes}) {words}", repr(sharding), f"{mesh!r} {words}", f"{mesh.abstract_mesh!r} {words}", numbered):
        points = zellige.ok("apply", layout=text, shape=shape, coords=[list(c) for c in all_coordinates])["points"]
        ours = {}
        for c, places in zip(all_coordinates, points):
            ours[c] = sorted((numbers[flatten(sizes, [p.get(n, 0) for n in names])], p.get("m", 0)) for p in places)
        tally.same(f"{text} over {shape}: devices", ours, {c: sorted(h) for c, h in want.items()})
    # What JAX divides, and what it refuses.
    other = tuple(n + rng.choice([0, 0, 1]) for n in shape)
    try:
        theirs = list(sharding.shard_shape(other))
    except ValueError:
        theirs = None
    answer = zellige.ask("parse", layout=f"Mesh({axes}) {words}", shape=other)
    tally.same(f"Mesh({axes}) {words} over {other}: divided at all", "ok" in answer, theirs is not None)
    hlo = str(sharding._to_xla_hlo_sharding(rank))
    found = zellige.ask("convert", layout=numbered, shape=shape, to="hlo")
    tally.same(f"{numbered} over {shape}: HLO", found.get("ok", {}).get("text") or found, hlo)
    if hlo != "{replicated}":
        # HLO counts devices in the order of the mesh.
        points = zellige.ok("apply", layout=hlo, shape=shape, coords=[list(c) for c in all_coordinates])["points"]
        ours = {c: sorted((numbers[p.get("pid", 0)], p.get("m", 0)) for p in places) for c, places in zip(all_coordinates, points)}
        tally.same(f"{hlo} over {shape}: devices", ours, {c: sorted(h) for c, h in want.items()})


def xla_text(rng):
    """A random shape with a layout: dimensions, their order, tiles."""
    shape = [rng.choice([1, 2, 3, 4, 5, 7, 8, 9]) for _ in range(rng.choice([1, 2, 2, 3]))]
    order = list(range(len(shape)))
    rng.shuffle(order)
    tiles, rank = [], len(shape)
    for _ in range(rng.choice([0, 1, 1, 2])):
        tile = [rng.choice([1, 2, 3, 4]) for _ in range(rng.randrange(1, rank + 1))]
        tiles.append(tile)
        rank += len(tile)
    tiling = "".join("(" + ",".join(map(str, t)) + ")" for t in tiles)
    text = f"s32[{','.join(map(str, shape))}]{{{','.join(map(str, order))}{':T' + tiling if tiling else ''}}}"
    return text, shape, order, tiles


def padded(shape, order, tiles) -> int:
    """Elements with padding by the definition: a tile cuts the last physical dimensions into blocks."""
    dims = [shape[d] for d in reversed(order)]
    for tile in tiles:
        dims = [1] * (len(tile) - len(dims)) + dims
        kept, cut = dims[: len(dims) - len(tile)], dims[len(dims) - len(tile) :]
        dims = kept + [-(-n // t) for n, t in zip(cut, tile)] + tile
    return size(dims)


def xla_case(zellige, tally, rng) -> None:
    text, shape, order, tiles = xla_text(rng)
    theirs = str(xla_client.Shape(text))
    tally.same(f"{text}: the text", zellige.ok("parse", layout=text)["layout"], theirs)
    layout = Layout(tuple(order[::-1]), tiling=tuple(map(tuple, tiles))) if tiles else Layout(tuple(order[::-1]))
    array = numpy.arange(size(shape), dtype=numpy.int32).reshape(shape)
    stored = jax.device_put(array, Format(layout, SingleDeviceSharding(jax.devices()[0]))).block_until_ready()
    found = zellige.ok("physical_order", layout=text, shape=shape)
    ours, theirs = 4 * found["padded_elements"], stored.on_device_size_in_bytes()
    if ours != theirs and ours == 4 * padded(shape, order, tiles) and theirs == 4 * padded(shape, order, tiles[:1]):
        tally.good("it reserves the memory of the first tile only", f"{text}: {theirs} bytes, and all of its tiles have {ours}")
    else:
        tally.same(f"{text}: bytes", ours, theirs)
    if not tiles:
        # The CPU reserves the memory of tiles and does not lay elements out in them; orders of dimensions it does.
        pointer = ctypes.cast(stored.unsafe_buffer_pointer(), ctypes.POINTER(ctypes.c_int32))
        memory = numpy.ctypeslib.as_array(pointer, (array.size,))
        tally.same(f"{text}: positions", found["order"], numpy.argsort(memory).tolist())


def xla_spelling(zellige, tally, rng) -> None:
    """A text with a mistake: accepted by both, and printed alike, or by none."""
    text, *_ = xla_text(rng)
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.randrange(len(text))
        change = rng.choice(["drop", "twice", "put"])
        if change == "drop":
            text = text[:at] + text[at + 1 :]
        elif change == "twice":
            text = text[:at] + text[at] + text[at:]
        else:
            text = text[:at] + rng.choice("0123,()[]{}:T* -") + text[at:]
    try:
        theirs = str(xla_client.Shape(text))
    except Exception:  # noqa: BLE001
        theirs = None
    if theirs is not None and ("{" not in theirs or "{" not in text or theirs.startswith("(")):
        return  # A shape without a layout, or a tuple of shapes, is no layout.
    answer = zellige.ask("parse", layout=text, notation="xla")
    ours = answer["ok"]["layout"] if "ok" in answer else None
    name = f"{text!r}: the spelling ({answer.get('error', {}).get('message', 'accepted')})"
    if ours is None and theirs is not None:
        # Its parser is lenient: it reads what is not its own print form, and orders that are none.
        order = theirs[theirs.index("{") + 1 :].split("}")[0].split(":")[0]
        order = [int(n) for n in order.split(",") if n]
        if sorted(order) != list(range(len(order))):
            return tally.good("its parser accepts an order of dimensions that is none", name)
        again = zellige.ask("parse", layout=theirs, notation="xla")
        if theirs != text and again.get("ok", {}).get("layout") == theirs:
            return tally.good("its parser accepts a text with a missing or a stray character", name)
    tally.same(name, ours, theirs)


def main() -> None:
    zellige, rng, cases = arguments(400)
    tally = Tally(f"jax and xla (jax {jax.__version__})")
    for _ in range(cases):
        sharding_case(zellige, tally, rng)
        xla_case(zellige, tally, rng)
        xla_spelling(zellige, tally, rng)
        xla_spelling(zellige, tally, rng)
    tally.finish()


main()
