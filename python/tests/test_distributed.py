"""Moves between shardings, by real processes, against gathering and scattering element by element."""

import datetime
import functools
import math
import os
import random
import re
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not (dist.is_available() and dist.is_gloo_available()):
    pytest.skip("PyTorch without gloo", allow_module_level=True)

import zellige.distributed as zd
from processes import Processes
from zellige import Layout, LayoutError

SIZES = (2, 4, 6)


@pytest.fixture(scope="module")
def six():
    processes = Processes(6)
    yield processes
    processes.close()


# What shardings mean, one element at a time. A side is a text, its mesh, and for every rank the places of its shard: the shape of
# the tensor that holds it, and the element at every place, -1 where there is none; None where the rank holds nothing.


def _coordinates(sizes, rank):
    return np.unravel_index(rank, sizes) if sizes else ()


def _by_placements(rng, shape, sizes, indices):
    """DTensor placements, by `torch.chunk`, one mesh dimension after the other."""
    one = rng.randrange(len(shape)) if rng.random() < 0.5 else None
    words = [one if one is not None else None if rng.random() < 0.3 else rng.randrange(len(shape)) for _ in sizes]
    texts = ["Replicate()" if d is None else f"Shard(dim={d})" for d in words]
    shards = []
    for rank in range(math.prod(sizes)):
        part = indices
        for d, n, at in zip(words, sizes, _coordinates(sizes, rank)):
            if d is not None:
                chunks = list(torch.chunk(torch.from_numpy(part), n, dim=d))
                empty = chunks[0].narrow(d, 0, 0)
                part = (chunks[at] if at < len(chunks) else empty).numpy()
        shards.append(np.ascontiguousarray(part))
    comma = "," if len(texts) == 1 else ""
    return f"({', '.join(texts)}{comma}) mesh={list(sizes)}", None, shards


def _by_spec(rng, shape, sizes, indices):
    """A `PartitionSpec`: a dimension over several axes at once, in equal lengths."""
    names = ["x", "y", "z"][: len(sizes)]
    fixed = rng.choice(names) if rng.random() < 0.2 else None
    free = [n for n in names if n != fixed]
    rng.shuffle(free)
    owner = {d: [] for d in range(len(shape))}
    for name in free:
        if rng.random() < 0.7:
            owner[rng.randrange(len(shape))].append(name)
    entry = lambda own: "None" if not own else (f"'{own[0]}'" if len(own) == 1 else "(" + ", ".join(f"'{n}'" for n in own) + ")")
    text = f"P({', '.join(entry(owner[d]) for d in range(len(shape)))})"
    place = rng.randrange(sizes[names.index(fixed)]) if fixed else 0
    if fixed:
        text += f" at {fixed}={place}"
    shards = []
    for rank in range(math.prod(sizes)):
        at = dict(zip(names, _coordinates(sizes, rank)))
        if fixed and at[fixed] != place:
            shards.append(None)
            continue
        cut = []
        for d, extent in enumerate(shape):
            parts = math.prod(sizes[names.index(n)] for n in owner[d])
            number = 0
            for n in owner[d]:
                number = number * sizes[names.index(n)] + at[n]
            length = -(-extent // parts)
            cut.append(slice(min(number * length, extent), min((number + 1) * length, extent)))
        shards.append(np.ascontiguousarray(indices[tuple(cut)]))
    return text, dict(zip(names, sizes)), shards


def _chunked(text, shape):
    """Whether placements divide a dimension unevenly, and then again."""
    if "mesh=" not in text:
        return False
    sizes = [int(n) for n in re.search(r"mesh=\[(.*)\]", text)[1].split(",")]
    left, uneven = list(shape), set()
    for word, n in zip(re.findall(r"Shard\(dim=(\d)|Replicate", text), sizes):
        if word:
            d = int(word)
            if d in uneven and n > 1:
                return True
            uneven |= {d} if left[d] % n else set()
            left[d] = -(-left[d] // n)
    return False


def _flat(rng, shape, sizes, indices):
    """The elements in a row, cut evenly over some axes of the mesh."""
    names = ["x", "y", "z"][: len(sizes)]
    over = [n for n in names if rng.random() < 0.6]
    row = indices.reshape(-1)
    used = over or names
    parts = math.prod(sizes[names.index(n)] for n in used)
    length = -(-row.size // parts)
    shards = []
    for rank in range(math.prod(sizes)):
        at = dict(zip(names, _coordinates(sizes, rank)))
        number = 0
        for n in [m for m in names if m in used]:
            number = number * sizes[names.index(n)] + at[n]
        shards.append(row[number * length : (number + 1) * length].copy())
    return " ".join(["flat", *over]), dict(zip(names, sizes)), shards


def _strided(rng, shape, sizes, indices):
    """Devices dealt in turns, and shards whose memory is in any order, with gaps: by the digits of every index."""
    names = ["x", "y", "z"][: len(sizes)]
    pieces = [[] for _ in shape]
    left = list(shape)
    copies = []
    for name, n in zip(names, sizes):
        fits = [d for d in range(len(shape)) if left[d] % n == 0]
        if fits and rng.random() < 0.75:
            d = rng.choice(fits)
            left[d] //= n
            pieces[d].append((n, name))
        else:
            copies.append((n, name))
    for d in range(len(shape)):
        turns = rng.choice([t for t in (1, 1, 2, 3) if left[d] % t == 0])
        pieces[d] = [(turns, None), *pieces[d], (left[d] // turns, None)]
    local = [(d, k) for d, own in enumerate(pieces) for k, (_, name) in enumerate(own) if name is None]
    rng.shuffle(local)
    step, steps = 1, {}
    for key in local:
        steps[key] = step
        step *= pieces[key[0]][key[1]][0]
        if rng.random() < 0.2:
            step += 2
    iters = [(n, steps[d, k] if name is None else f"1@{name}") for d, own in enumerate(pieces) for k, (n, name) in enumerate(own)]
    text = f"S[({','.join(str(n) for n, _ in iters)}):({','.join(str(s) for _, s in iters)})]"
    if copies:
        text += f" + R[({','.join(str(n) for n, _ in copies)}):({','.join(f'1@{name}' for _, name in copies)})]"
    span = 1 + sum((pieces[d][k][0] - 1) * s for (d, k), s in steps.items())
    shards = [np.full(span, -1, dtype=np.int64) for _ in range(math.prod(sizes))]
    for index in np.ndindex(*shape):
        address, at = 0, {}
        for d, i in enumerate(index):
            digits = np.unravel_index(i, [n for n, _ in pieces[d]])
            for k, ((n, name), digit) in enumerate(zip(pieces[d], digits)):
                if name is None:
                    address += int(digit) * steps[d, k]
                else:
                    at[name] = int(digit)
        for rank in range(math.prod(sizes)):
            own = dict(zip(names, _coordinates(sizes, rank)))
            if all(own[name] == v for name, v in at.items()):
                shards[rank][address] = indices[index]
    return text, dict(zip(names, sizes)), shards


MESHES = {
    2: [(2,), (1, 2), (2, 1)],
    4: [(4,), (2, 2), (2, 2), (4, 1), (1, 2, 2)],
    6: [(6,), (2, 3), (3, 2), (6, 1), (1, 3, 2)],
}
SMALLER = {2: [(1,), (2,)], 4: [(3,), (2,), (4,), (2, 1)], 6: [(4,), (2, 2), (5,), (3,), (2, 1)]}
DTYPES = [torch.float32, torch.int64, torch.bfloat16, torch.uint8, torch.complex128, torch.float8_e4m3fn, torch.bool]


def _side(rng, shape, size, whole):
    sizes = rng.choice(MESHES[size] if whole else SMALLER[size])
    indices = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    kind = rng.choice([_by_placements, _by_placements, _by_spec, _flat, _strided])
    text, mesh, shards = kind(rng, shape, sizes, indices)
    return text, mesh, shards + [None] * (size - len(shards)), kind.__name__


def _values(elements, dtype):
    """A tensor of elements by their numbers; zero where there is none."""
    numbers = torch.from_numpy(np.where(elements < 0, 0, elements % 241 + 1))
    if dtype == torch.bool:
        return numbers % 2 == 1
    if dtype == torch.float8_e4m3fn:
        return numbers.to(torch.uint8).view(dtype) if numbers.numel() else torch.empty(numbers.shape, dtype=dtype)
    return numbers.to(dtype)


def _same(a, b):
    view = torch.uint8 if a.dtype == torch.float8_e4m3fn else a.dtype
    return a.shape == b.shape and torch.equal(a.view(view) if a.numel() else a.to(torch.uint8), b.view(view) if b.numel() else b.to(torch.uint8))


@functools.cache
def _group(size):
    return dist.group.WORLD if size == dist.get_world_size() else dist.new_group(list(range(size)))


def random_pairs(size, seed, count, engine="native"):
    """Runs on every process: the same pairs on all of them."""
    groups = {n: _group(n) for n in (2, 4)}
    if dist.get_rank() >= size:
        return {}
    group = groups.get(size, dist.group.WORLD)
    rank, rng, seen = dist.get_rank(), random.Random(seed), {}
    for case in range(count):
        shape = rng.choice([(rng.randint(1, 40),), (rng.randint(1, 9), rng.randint(1, 11)), (4, 6, 2), (12, 8), (5, 3, 4), (24, 12)])
        first = rng.random() < 0.5
        src = _side(rng, shape, size, first or rng.random() < 0.6)
        dst = _side(rng, shape, size, not first or rng.random() < 0.6)
        dtype = rng.choice(DTYPES)
        memory = rng.choice([None, None, dtype.itemsize * 2 * 128])
        what = f"case {case} of {size}: {shape} {dtype} {src[0]} {src[1]} -> {dst[0]} {dst[1]}, memory={memory}"
        count = lambda side: math.prod(side[1].values()) if side[1] else sum(x is not None for x in side[2])
        if max(count(src), count(dst)) != size:
            continue
        held = src[2][rank]
        local = None if held is None else _values(held, dtype)
        wanted = dst[2][rank]
        options = dict(shape=shape, mesh=src[1], dst_mesh=dst[1], memory=memory, dtype=dtype)
        out, into = None, rng.random() < 0.3
        if wanted is not None and into:
            out = torch.zeros(wanted.shape, dtype=torch.uint8 if dtype == torch.float8_e4m3fn else dtype).view(dtype)
        chunks = [_chunked(side[0], shape) for side in (src, dst)]
        try:
            found = zd.reshard(local, src[0], dst[0], group, out, **options)
        except (LayoutError, zd.ReshardError) as error:
            # Chunks of chunks are listed as boxes, which shards in turns are not.
            assert any(chunks) and "_strided" in (src[3], dst[3]) and "and then again" in str(error), what
            seen["refused"] = seen.get("refused", 0) + 1
            continue
        except Exception as error:
            raise AssertionError(what) from error
        seen["chunks of chunks"] = seen.get("chunks of chunks", 0) + any(chunks)
        assert out is None or found is out, what
        expected = torch.empty(0, dtype=dtype) if wanted is None else _values(wanted, dtype)
        if dst[3] == "_strided":
            # A box, where it happens to be one.
            found = found.reshape(-1)
        assert _same(found, expected), f"{what}, rank {rank}:\n{found}\n{expected}"
        for kind in (src[3], dst[3], "rounds" if memory else "one round", "out" if out is not None else "new"):
            seen[kind] = seen.get(kind, 0) + 1
    return seen


@pytest.mark.parametrize("size", SIZES)
def test_random_pairs_arrive_as_by_definition(six, size):
    seen = six.run(random_pairs, size, 100 + size, 130)[0]
    assert sum(seen[k] for k in ("one round", "rounds")) > 100, seen
    assert min(seen[k] for k in ("_by_placements", "_by_spec", "_flat", "_strided")) > 20, seen
    assert size < 4 or seen["chunks of chunks"] > 5, seen


def _uneven(rows, size, rank):
    length = -(-rows // size)
    return max(0, min(length, rows - rank * length))


def torch_engine(seed):
    """The copies of PyTorch, as on a GPU, in place of the engine."""
    from zellige.distributed import _reshard

    before = _reshard._engine_reaches
    _reshard._engine_reaches = lambda device: False
    try:
        return random_pairs(4, seed, 40)
    finally:
        _reshard._engine_reaches = before


def test_packing_by_pytorch_gives_the_same(six):
    assert six.run(torch_engine, 7)[0]["one round"] > 10


def dtensors(size, seed, count):
    """DTensor's own results are the reference; meshes of any order of processes."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    rng, world, checked, twice = random.Random(seed), dist.get_world_size(), 0, 0
    orders = [list(range(world)), list(reversed(range(world))), [0, 2, 4, 1, 3, 5]]
    meshes = []
    for shape in ((6,), (2, 3), (3, 2)):
        for order in orders:
            meshes.append(DeviceMesh("cpu", torch.tensor(order).reshape(shape)))
    meshes += [DeviceMesh("cpu", torch.arange(4).reshape(2, 2)), DeviceMesh("cpu", [1, 3, 5]), DeviceMesh("cpu", [4, 5])]
    for case in range(count):
        shape = rng.choice([(12, 6), (7, 10), (5,), (6, 6, 4), (13, 2)])
        old, new = rng.choice(meshes), rng.choice(meshes)

        def placements(mesh):
            return [Replicate() if rng.random() < 0.3 else Shard(rng.randrange(len(shape))) for _ in range(mesh.ndim)]

        before, after = placements(old), placements(new)
        whole = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)
        given = distribute_tensor(whole, old, before, src_data_rank=None)
        what = f"case {case}: {shape} {before} on {old} -> {after} on {new}"
        try:
            found = zd.reshard(given, new, after)
        except ValueError as error:
            # Two meshes in different orders, neither of which is even: nothing was sent.
            assert "no common order" in str(error), what
            continue
        wanted = distribute_tensor(whole, new, after, src_data_rank=None)
        assert found.placements == tuple(after) and found.device_mesh == new and found.shape == given.shape, what
        twice += _chunked(str(tuple(after)).replace("Shard(", "Shard(dim=").replace("dim=dim=", "dim=") + f" mesh={list(new.shape)}", shape)
        if dist.get_rank() in new.mesh:
            assert torch.equal(found.to_local(), wanted.to_local()), f"{what}\n{found.to_local()}\n{wanted.to_local()}"
        checked += 1
    return checked, twice


def test_dtensors_on_any_meshes(six):
    checked, twice = six.run(dtensors, 6, 3, 80)[0]
    assert checked > 60 and twice > 5, (checked, twice)


def dtensor_details():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
    rank = dist.get_rank()
    whole = torch.arange(72.0).reshape(12, 6)
    # Sums that are pending are added up first.
    sums = DTensor.from_local(torch.full((12, 6), float(rank)), mesh, [Partial(), Partial()], run_check=False)
    found = zd.reshard(sums, mesh, [Shard(0), Shard(1)])
    assert torch.equal(found.full_tensor(), torch.full((12, 6), 15.0))
    given = distribute_tensor(whole, mesh, [Shard(0), Shard(0)], src_data_rank=None)
    with pytest.raises(ValueError, match="pending sum"):
        zd.reshard(given, mesh, [Partial(), Replicate()])
    # Dimensions from the end, and a tensor to write into.
    out = distribute_tensor(torch.zeros(12, 6), mesh, [Shard(1), Replicate()], src_data_rank=None)
    assert zd.reshard(given, mesh, [Shard(-1), Replicate()], out=out) is out
    assert torch.equal(out.full_tensor(), whole)
    # A length that is divided unevenly, and then again; some processes have nothing.
    odd = distribute_tensor(torch.arange(15.0).reshape(5, 3), mesh, [Shard(0), Shard(0)], src_data_rank=None)
    for new in ([Replicate(), Replicate()], [Replicate(), Shard(0)], [Shard(1), Shard(1)]):
        found, wanted = zd.reshard(odd, mesh, new), odd.redistribute(placements=new)
        assert torch.equal(found.to_local(), wanted.to_local()) and found.to_local().shape == wanted.to_local().shape
        back = zd.reshard(found, mesh, [Shard(0), Shard(0)])
        assert torch.equal(back.to_local(), odd.to_local()) and back.to_local().shape == odd.to_local().shape
    # Views of a transposed tensor are laid out anew.
    turned = given.t()
    assert torch.equal(zd.reshard(turned, mesh, [Replicate(), Replicate()]).to_local(), whole.t())
    strided = getattr(__import__("torch.distributed.tensor.placement_types", fromlist=["x"]), "_StridedShard", None)
    if strided is not None:
        split = distribute_tensor(whole, mesh, [Shard(0), Shard(0)], src_data_rank=None)
        dealt = zd.reshard(split, mesh, [strided(0, split_factor=3), Shard(0)])
        # Rows are cut by `tp` first, and what each gets by `dp`.
        dp, tp = divmod(rank, 3)
        assert torch.equal(dealt.to_local(), whole.chunk(3)[tp].chunk(2)[dp])
    return True


def test_details_of_dtensor(six):
    assert all(six.run(dtensor_details))


def refusals():
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = dict(src="P('x', None)", dst="P(None, 'x')", mesh={"x": size}, shape=(12, 12))
    fine = torch.zeros(2, 12)
    seen = []

    def refused(kinds, words, local=fine, **changed):
        """Every process raises, the one that refuses with its own reason."""
        arguments = {**rows, **changed}
        src, dst = arguments.pop("src"), arguments.pop("dst")
        with pytest.raises(kinds, match=words):
            zd.reshard(local, src, dst, **arguments)
        seen.append(words)

    one = rank == 1
    both = (ValueError, TypeError, zd.ReshardError)
    refused(both, r"holds a shard of \(2, 12\).* and \(3, 12\) is given", torch.zeros(3, 12) if one else fine)
    refused(both, "call .contiguous", torch.zeros(12, 2).t() if one else fine)
    refused(both, "None is given", None if one else fine, dtype=torch.float32)
    refused(both, "keeps the dtype", fine, out=torch.zeros(12, 2, dtype=torch.float64) if one else None)
    refused(both, "shares memory", fine, out=fine.view(-1).view(12, 2) if one else None)
    refused(both, "a tensor or None, not ndarray", np.zeros((2, 12)) if one else fine)
    refused(both, "devices, and the group has 6", mesh={"x": 4})
    refused(both, "one tensor", dst="(Shard(1),) mesh=[6] shape=[12, 13]")
    refused(both, "one for every mesh dimension", dst="(Shard(1), Shard(0)) mesh=[6]")
    refused(both, "at least", memory=8)
    refused(both, "more than 0", timeout=-1)
    refused(both, "name=size", mesh="x:6")
    refused(zd.ReshardError, "different plans", fine, dst="P('x', None)" if one else rows["dst"])
    refused(zd.ReshardError, "different plans", fine.to(torch.int32) if one else fine)
    refused(zd.ReshardError, "different plans", fine, memory=100 if one else None)
    # Afterwards the group works as before.
    found = zd.reshard(torch.full((2, 12), float(rank)), rows["src"], rows["dst"], mesh=rows["mesh"], shape=rows["shape"])
    assert torch.equal(found, torch.arange(6.0).repeat_interleave(2)[:, None].expand(12, 2))
    return len(seen)


def test_one_refusal_ends_all(six):
    assert six.run(refusals) == [15] * 6


def bounded(memory):
    """Progress is told after every round, and nobody holds more than was allowed."""
    rank, size = dist.get_rank(), dist.get_world_size()
    told = []
    rows = torch.arange(240 * 60).reshape(240, 60)[rank * 40 : rank * 40 + 40].clone()
    options = dict(mesh=f"x={size}", shape=(240, 60), memory=memory)
    found = zd.reshard(rows, "P('x', None)", "P(None, 'x')", progress=lambda done, total: told.append((done, total)), **options)
    assert torch.equal(found, torch.arange(240 * 60).reshape(240, 60)[:, rank * 10 : rank * 10 + 10])
    plan = zd.plan("P('x', None)", "P(None, 'x')", dtype=torch.int64, rank=rank, **options)
    most = max(sum(plan._process((False, False), 8192).round(k).staging) for k in range(plan.rounds))
    assert told[-1] == (plan.sent + plan.received,) * 2 and len(told) == plan.rounds > 3 and most <= memory
    return plan.rounds


def test_memory_is_bounded_by_rounds(six):
    assert len(set(six.run(bounded, 8192))) == 1


def swaps_group():
    """Layouts as objects, on a group whose processes are not all."""
    pair = [dist.new_group([k, k + 1]) for k in (0, 2, 4)][dist.get_rank() // 2]
    at = dist.get_rank() % 2
    whole = torch.arange(24, dtype=torch.int16).reshape(4, 6)
    src = Layout("(Shard(dim=0),) mesh=[2] shape=[4, 6]")
    dst = Layout("(Shard(dim=1),) mesh=[2] shape=[4, 6]")
    found = zd.reshard(whole[at * 2 : at * 2 + 2].clone(), src, dst, pair)
    assert torch.equal(found, whole[:, at * 3 : at * 3 + 3])
    return True


def test_layouts_as_objects_on_groups(six):
    assert all(six.run(swaps_group))


def test_a_plan_says_what_it_costs():
    plan = zd.plan("P('x', None)", "P(None, 'x')", (8, 8), mesh="x=4", rank=1)
    assert (plan.sent, plan.received, plan.kept, plan.rounds, plan.shard_shape()) == (48, 48, 16, 1, (8, 2))
    found = plan.certificate()
    assert found["received"] == [12] * 4 and found["sender_factor"] == 1.0 and found["messages"] == 12
    same = zd.plan("(Shard(0),) mesh=[4]", "(Shard(1),) mesh=[4]", (8, 8), ranks=4)
    assert same.received == 48 and "rank 0 of 4" in repr(same)
    with pytest.raises(ValueError, match="give the number of processes"):
        zd.plan("(Shard(0),) mesh=[4]", "(Shard(1),) mesh=[4]", (8, 8))


def test_without_a_group():
    with pytest.raises(RuntimeError, match="init_process_group"):
        zd.reshard(torch.zeros(2), "whole", "whole")


def killed_on_the_way(victim):
    rank, size = dist.get_rank(), dist.get_world_size()
    begun = time.monotonic()

    def after(done, total):
        if rank == victim and done > total // 4:
            os._exit(9)

    rows = torch.zeros(1 << 18)
    with pytest.raises(zd.ReshardError, match="gone"):
        for _ in range(2):
            zd.reshard(rows, "(Shard(0),)", "whole", mesh={"x": size}, shape=(size << 18,), memory=1 << 20, progress=after)
    return time.monotonic() - begun


def complaining(victim):
    """What a function of progress raises does not hold up the others."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def after(done, total):
        if rank == victim:
            raise OSError("no room")

    rows, out = torch.full((1 << 12,), float(rank)), torch.zeros(size << 12)
    options = dict(mesh={"x": size}, shape=(size << 12,), memory=1 << 16, progress=after)
    if rank == victim:
        with pytest.raises(OSError, match="no room"):
            zd.reshard(rows, "(Shard(0),)", "whole", out=out, **options)
    else:
        zd.reshard(rows, "(Shard(0),)", "whole", out=out, **options)
    return torch.equal(out, torch.arange(float(size)).repeat_interleave(1 << 12))


def absent(victim):
    """One process does not call, the others end when their time is over."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == victim:
        return 0.0
    begun = time.monotonic()
    with pytest.raises(zd.ReshardError, match="within 1 s"):
        timeout = datetime.timedelta(seconds=1)
        zd.reshard(torch.zeros(2), "(Shard(0),)", "whole", mesh={"x": size}, shape=(2 * size,), timeout=timeout)
    return time.monotonic() - begun


def test_a_killed_process_ends_the_others():
    processes = Processes(4)
    try:
        times = processes.run(killed_on_the_way, 2, lost=[2])
        assert times[2] is None and max(t for t in times if t is not None) < 20, times
    finally:
        processes.close()


def test_progress_that_raises(six):
    assert all(six.run(complaining, 1))


def on_cards():
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = torch.arange(64 * 96, dtype=torch.float16).reshape(64, 96) % 500
    local, out = whole.chunk(size)[rank].contiguous().to("spyre"), torch.zeros(64, 96 // size, dtype=torch.float16, device="spyre")
    options = dict(mesh={"x": size}, shape=(64, 96))
    found = zd.reshard(local, "P('x', None)", "P(None, 'x')", **options)
    assert zd.reshard(local, "P('x', None)", "P(None, 'x')", out=out, **options) is out
    wanted = whole.chunk(size, 1)[rank]
    return found.device.type == "spyre" and torch.equal(found.cpu(), wanted) and torch.equal(out.cpu(), wanted)


def test_tensors_of_the_simulated_card():
    processes = Processes(2, backend="spyreccl")
    try:
        assert processes.run(on_cards) == [True, True]
    finally:
        processes.close()


def test_a_process_that_does_not_call_ends_the_others():
    processes = Processes(2)
    try:
        assert processes.run(absent, 1)[0] < 3
    finally:
        processes.close()
