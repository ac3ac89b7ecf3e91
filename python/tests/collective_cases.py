"""Cases of collectives: functions that every process of a group runs. Inputs follow from the rank, so that each process
knows what the others give, and compares with a definition on the CPU."""

import functools
import math

import torch
import torch.distributed as dist

OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def given(rank, shape, dtype):
    """What a process gives: numbers that every format has, and whose sums of four do too."""
    g = torch.Generator().manual_seed(17 * rank + len(shape))
    whole = torch.randint(-7, 8, shape, generator=g)
    if dtype == torch.bool:
        return whole > 0
    return whole.abs().to(dtype) if dtype == torch.uint8 else whole.to(dtype)


def define(op, parts):
    """A reduction, element by element, by Python's own arithmetic."""
    dtype = parts[0].dtype
    rows = [p.flatten().tolist() for p in parts]

    def one(values):
        if op in ("SUM", "AVG"):
            if dtype == torch.bool:
                return any(values)
            total = sum(values)
            return total if op == "SUM" else total / len(values) if dtype.is_floating_point else math.trunc(total / len(values))
        if op == "PRODUCT":
            return all(values) if dtype == torch.bool else math.prod(values)
        if op in ("MIN", "MAX"):
            return (min if op == "MIN" else max)(values)
        return functools.reduce({"BAND": lambda a, b: a & b, "BOR": lambda a, b: a | b, "BXOR": lambda a, b: a ^ b}[op], values)

    return torch.tensor([one(values) for values in zip(*rows)], dtype=torch.float64 if dtype.is_floating_point else torch.int64)


def same(got, want):
    """Whether a result is the exact value, rounded once to the format of the card; integers wrap."""
    rounded = want.to(got.dtype) if got.dtype in INTEGERS else want.float().to("spyre").to(got.dtype).cpu()
    return torch.equal(got.cpu().flatten(), rounded)


def reductions():
    """All reductions of all formats; those that make no sense are refused before anything is sent."""
    world, rank = dist.get_world_size(), dist.get_rank()
    wrong = []
    for dtype in (*FLOATS, *INTEGERS):
        for op in OPS:
            if (op.startswith("B") and dtype.is_floating_point) or (op == "AVG" and dtype == torch.bool):
                try:
                    dist.all_reduce(torch.ones(3, dtype=dtype, device="spyre"), op=getattr(dist.ReduceOp, op))
                    wrong.append(f"{op} of {dtype} was not refused")
                except ValueError as error:
                    assert "spyreccl" in str(error)
                continue
            parts = [given(r, (3, 5), dtype) for r in range(world)]
            want = define(op, parts)
            x = parts[rank].to("spyre")
            dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
            if not same(x, want):
                wrong.append(f"all_reduce {op} {dtype}: {x.cpu().tolist()} is not {want.tolist()}")
            if op not in ("SUM", "AVG"):
                continue
            # Scattered: process r keeps part r.
            whole = [given(r, (world, 6), dtype) for r in range(world)]
            part = torch.zeros(6, dtype=dtype, device="spyre")
            dist.reduce_scatter_tensor(part, whole[rank].to("spyre"), op=getattr(dist.ReduceOp, op))
            if not same(part, define(op, [w[rank] for w in whole])):
                wrong.append(f"reduce_scatter {op} {dtype}")
            y = parts[rank].to("spyre")
            dist.reduce(y, dst=world - 1, op=getattr(dist.ReduceOp, op))
            if not same(y, want if rank == world - 1 else define("SUM", [parts[rank]])):
                wrong.append(f"reduce {op} {dtype}")
    return wrong


def large():
    """Parts of an all-reduce that is cut in pieces: the same bits as of one that is not."""
    world, rank = dist.get_world_size(), dist.get_rank()
    wrong = []
    for dtype in (torch.float32, torch.float16):
        parts = [torch.randn(257, 131, generator=torch.Generator().manual_seed(r)).to(dtype) for r in range(world)]
        x = parts[rank].to("spyre")
        held = [p.to("spyre").cpu().float() for p in parts]
        dist.all_reduce(x)
        want = functools.reduce(torch.add, held)
        if not torch.equal(x.cpu(), want.to(dtype).to("spyre").cpu() if dtype == torch.float32 else want.to("spyre").to(dtype).cpu()):
            wrong.append(str(dtype))
        # A view, with strides of its own.
        y = parts[rank].to("spyre").t()[3:70, ::2]
        dist.all_reduce(y)
        if not torch.equal(y.cpu(), x.t()[3:70, ::2].cpu()):
            wrong.append(f"view of {dtype}")
    return wrong


def moves():
    """Collectives that only move elements, even and uneven, of every format."""
    world, rank = dist.get_world_size(), dist.get_rank()
    wrong = []

    def check(name, got, want):
        if not torch.equal(got.cpu(), want):
            wrong.append(f"{name}: {got.cpu().tolist()} is not {want.tolist()}")

    dtypes = (*FLOATS, *INTEGERS, torch.float8_e4m3fn, torch.float64)
    for dtype in dtypes:
        def make(r, *shape):
            x = given(r, shape, torch.float32)
            return (x > 0) if dtype == torch.bool else x.abs().to(dtype) if dtype == torch.uint8 else x.to(dtype)

        def ints(t):
            return t.float() if dtype == torch.float8_e4m3fn else t

        def compare(name, got, want):
            check(f"{name} {dtype}", ints(got.cpu()), ints(want))

        parts = [make(r, 2, 3) for r in range(world)]
        outs = [torch.zeros(2, 3, dtype=dtype).to("spyre") for _ in range(world)]
        dist.all_gather(outs, parts[rank].to("spyre"))
        for r in range(world):
            compare("all_gather", outs[r], parts[r])
        whole = torch.zeros(2 * world, 3, dtype=dtype).to("spyre")
        dist.all_gather_into_tensor(whole, parts[rank].to("spyre"))
        compare("all_gather_into_tensor", whole, torch.cat([p.float() for p in parts]).to(dtype) if dtype == torch.float8_e4m3fn else torch.cat(parts))
        uneven = [make(r, r + 1, 3) for r in range(world)]
        outs = [torch.zeros(r + 1, 3, dtype=dtype).to("spyre") for r in range(world)]
        dist.all_gather(outs, uneven[rank].to("spyre"))
        for r in range(world):
            compare("uneven all_gather", outs[r], uneven[r])
        x = parts[rank].to("spyre")
        dist.broadcast(x, src=world - 1)
        compare("broadcast", x, parts[world - 1])
        # Process r has r + q + 1 rows for process q.
        rows = [[make(10 * r + q, r + q + 1, 2) for q in range(world)] for r in range(world)]
        outs = [torch.zeros(r + rank + 1, 2, dtype=dtype).to("spyre") for r in range(world)]
        dist.all_to_all(outs, [p.to("spyre") for p in rows[rank]])
        for r in range(world):
            compare("all_to_all", outs[r], rows[r][rank])
        if dtype != torch.float8_e4m3fn:
            sizes = [rank + q + 1 for q in range(world)]
            out = torch.zeros(sum(sizes), 2, dtype=dtype).to("spyre")
            dist.all_to_all_single(out, torch.cat(rows[rank]).to("spyre"), sizes, sizes)
            compare("all_to_all_single", out, torch.cat([rows[r][rank] for r in range(world)]))
        outs = [torch.zeros(2, 3, dtype=dtype).to("spyre") for _ in range(world)] if rank == 1 else None
        dist.gather(parts[rank].to("spyre"), outs, dst=1)
        for r in range(world if outs else 0):
            compare("gather", outs[r], parts[r])
        out = torch.zeros(2, 3, dtype=dtype).to("spyre")
        dist.scatter(out, [p.to("spyre") for p in parts] if rank == 1 else None, src=1)
        compare("scatter", out, parts[rank])
    try:
        dist.all_reduce(torch.ones(2, dtype=torch.complex64).to("spyre"))
        wrong.append("complex numbers were not refused")
    except NotImplementedError as error:
        assert "view_as_real" in str(error)
    return wrong


def wide_numbers():
    """Numbers of the card's 16 bits that float16 has not: past its range, and below its smallest."""
    world, rank = dist.get_world_size(), dist.get_rank()
    big = torch.full((4,), 60000.0, dtype=torch.float16, device="spyre") * 4
    tiny = torch.full((4,), 2.0**-14, dtype=torch.float16, device="spyre") * 2.0**-12
    x = big.clone()
    dist.all_reduce(x)
    outs = [torch.zeros(4, dtype=torch.float16, device="spyre") for _ in range(world)]
    dist.all_gather(outs, tiny)
    return (x / 1024).cpu().tolist(), (big * world / 1024).cpu().tolist(), [(o * 2.0**14).cpu()[0].item() for o in outs]


def messages():
    """All send before one receives; sizes past the buffers of a socket; messages of one sender come in order."""
    world, rank = dist.get_world_size(), dist.get_rank()
    n, following, before = 1_000_000, (rank + 1) % world, (rank - 1) % world
    mine, theirs = torch.full((n,), float(rank), device="spyre"), torch.zeros(n, device="spyre")
    ops = [dist.P2POp(dist.isend, mine, following), dist.P2POp(dist.irecv, theirs, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert theirs[0].item() == theirs[-1].item() == before
    try:
        dist.recv(theirs)
    except NotImplementedError as error:
        assert "src" in str(error)
    first, second = torch.zeros(2, device="spyre"), torch.zeros(5, device="spyre")
    if rank == 0:
        dist.send(torch.ones(2, device="spyre"), 1)
        dist.send(torch.full((5,), 2.0, device="spyre"), 1)
    elif rank == 1:
        works = [dist.irecv(first, 0), dist.irecv(second, 0)]
        for work in works:
            work.wait()
        assert first.sum().item() == 2 and second.sum().item() == 10
    dist.barrier()
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    return objects


def empty():
    """Tensors without elements take part."""
    world = dist.get_world_size()
    x = torch.zeros(0, 4, device="spyre")
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    out = torch.zeros(0, 4, device="spyre")
    dist.all_gather_into_tensor(out, x)
    parts = [torch.zeros(r, device="spyre") for r in range(world)]
    dist.all_gather(parts, torch.full((dist.get_rank(),), 1.0, device="spyre"))
    return [p.sum().item() for p in parts]


def mismatch(how):
    """What the error says in each process; the group works afterwards."""
    rank = dist.get_rank()
    try:
        if how == "size":
            dist.all_reduce(torch.zeros(4, 8 + (rank == 1), device="spyre"))
        elif how == "operation":
            x = torch.zeros(4, device="spyre")
            dist.broadcast(x, 0) if rank == 1 else dist.all_reduce(x)
        elif how == "dtype":
            dist.all_reduce(torch.zeros(4, device="spyre", dtype=torch.int32 if rank == 1 else torch.float32))
        elif how == "parts":
            outs = [torch.zeros(3 if rank == 1 else 2, device="spyre") for _ in range(dist.get_world_size())]
            dist.all_gather(outs, torch.zeros(2, device="spyre"))
        said = "nothing"
    except RuntimeError as error:
        said = f"{type(error).__name__}: {error}"
    x = torch.ones(2, device="spyre")
    dist.all_reduce(x)
    return said, x.cpu().tolist()


def costs():
    """The exchanges of a few collectives as they are accounted: what, messages, bytes, time; and the clock after each."""
    world = dist.get_world_size()
    x = torch.ones(5, 100, dtype=torch.float16, device="spyre")
    dist.barrier()
    torch.spyre.reset_collectives()
    before = torch.spyre.Event()
    before.record()
    dist.all_reduce(x)
    after = torch.spyre.Event()
    after.record()
    dist.all_gather_into_tensor(torch.zeros(5 * world, 100, dtype=torch.float16, device="spyre"), x)
    dist.reduce_scatter_tensor(torch.zeros(5, dtype=torch.float32, device="spyre"), torch.ones(5 * world, device="spyre"))
    dist.broadcast(x, 0)
    dist.barrier()
    found = torch.spyre.collectives()
    return [(c.op, c.dtype, c.size, c.messages, c.bytes, c.us) for c in found], before.elapsed_time(after) * 1e3 - found[0].waited_us


def ends(rank):
    """One process ends in the middle; what the others are told, and how long that takes."""
    import os
    import time

    x = torch.ones(4, device="spyre")
    dist.all_reduce(x)
    if dist.get_rank() == rank:
        os._exit(3)
    start = time.monotonic()
    try:
        dist.all_reduce(x)
        said = "nothing"
    except dist.DistBackendError as error:
        said = str(error)
    return said, time.monotonic() - start


def stays_away(rank):
    """One process does not come within the time that a group waits."""
    import datetime
    import time

    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    dist.all_reduce(torch.ones(4, device="spyre"), group=group)
    if dist.get_rank() == rank:
        return "", 0.0
    start = time.monotonic()
    try:
        dist.all_reduce(torch.ones(4, device="spyre"), group=group)
        said = "nothing"
    except dist.DistBackendError as error:
        said = str(error)
    return said, time.monotonic() - start


def plain():
    """The collectives of two processes, as a first program calls them."""
    rank = dist.get_rank()
    x = torch.full((3, 70), float(rank + 1), device="spyre")
    dist.all_reduce(x)
    parts = [torch.zeros(2, device="spyre") for _ in range(2)]
    dist.all_gather(parts, torch.full((2,), float(rank), device="spyre"))
    y = torch.full((4,), float(rank), device="spyre")
    dist.broadcast(y, src=1)
    dist.barrier()
    return x.sum().item(), [p[0].item() for p in parts], y[0].item(), x.device.type


def of_one_tensor():
    """Those that take a tensor for all processes."""
    mine = torch.arange(4.0, device="spyre") + 10 * dist.get_rank()
    whole = torch.zeros(8, device="spyre")
    dist.all_gather_into_tensor(whole, mine)
    part = torch.zeros(2, device="spyre")
    dist.reduce_scatter_tensor(part, mine)
    mean = torch.zeros(2, device="spyre")
    dist.reduce_scatter_tensor(mean, mine, op=dist.ReduceOp.AVG)
    other = torch.zeros(4, device="spyre")
    dist.all_to_all_single(other, mine)
    pieces = [torch.zeros(2, device="spyre") for _ in range(2)]
    dist.all_to_all(pieces, list(mine.split(2)))
    average = mine.clone()
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    return [t.tolist() for t in (whole, part, mean, other, torch.cat(pieces), average)]


def sharded_modules():
    """Two steps of AdamW on modules of `fully_shard`: how far a weight is from one process on the CPU."""
    import copy

    import torch.nn as nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("spyre", (world,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    plain = copy.deepcopy(model)
    model.to("spyre")
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    ours, theirs = torch.optim.AdamW(model.parameters(), 0.01), torch.optim.AdamW(plain.parameters(), 0.01)
    for _ in range(2):
        x = torch.randn(8, 16)
        for module, optimizer, given in ((model, ours, x.chunk(world)[rank].to("spyre")), (plain, theirs, x)):
            optimizer.zero_grad()
            module(given).pow(2).mean().backward()
            optimizer.step()
    error = (model[0].weight.full_tensor().cpu() - plain[0].weight).abs().max().item()
    return list(model[0].weight.to_local().shape), model[0].weight.device.type, error
