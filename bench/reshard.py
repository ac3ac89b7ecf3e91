"""Moves between shardings by zellige.distributed beside DTensor.redistribute, in the same processes, in turns.

    python bench/reshard.py [--processes 4] [--megabytes 32] [--seconds 60] [--case TEXT]

Every case is a DTensor and the placements that it shall have. Both ways give the same result, which is checked first. Times are of the
slowest process; the figure of a case is the median of the ratios of neighbouring turns. TEXT names the cases that contain it.
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def cases(n, side):
    """Name, mesh, old and new placements, shape."""
    from torch.distributed.tensor import Replicate as R
    from torch.distributed.tensor import Shard as S

    square = (side, side)
    grid = (2, n // 2)
    yield "rows to columns", (n,), [S(0)], [S(1)], square
    yield "columns to rows", (n,), [S(1)], [S(0)], square
    yield "rows to whole", (n,), [S(0)], [R()], square
    yield "columns to whole", (n,), [S(1)], [R()], square
    yield "whole to columns", (n,), [R()], [S(1)], square
    yield "uneven rows to columns", (n,), [S(0)], [S(1)], (side - 3, side - 5)
    if n < 4:
        return
    yield "grid: swap both dimensions", grid, [S(0), S(1)], [S(1), S(0)], square
    yield "grid: rows twice to columns twice", grid, [S(0), S(0)], [S(1), S(1)], square
    yield "grid: rows twice to grid", grid, [S(0), S(0)], [S(0), S(1)], square
    yield "grid: rows twice, other order", grid, [S(0), R()], [R(), S(0)], square
    yield "grid: replicas to columns of both", grid, [R(), S(0)], [S(1), S(1)], square
    yield "grid: tensor of three dimensions", grid, [S(0), S(1)], [S(2), S(0)], (64, side // 8, side // 8)
    yield "grid: small tensor", grid, [S(0), S(1)], [S(1), S(0)], (32, 32)
    yield "rows to columns, small tensor", (n,), [S(0)], [S(1)], (32, 32)


def collectives(call):
    """How many collectives with traffic a call makes."""
    from torch.distributed.tensor.debug import CommDebugMode

    with CommDebugMode() as mode:
        call()
    return mode.get_total_counts()


def work(rank, n, store, megabytes, seconds, wanted):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor
    from zellige.distributed import reshard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=n)
    side = int((megabytes * 2**20 / 4) ** 0.5) // 64 * 64
    slowest = torch.zeros(2, dtype=torch.float64)
    listed = [case for case in cases(n, side) if wanted in case[0]]
    if rank == 0:
        print(f"{n} processes, float32, {side} x {side} unless small; times of one move, in ms")
        print(f"{'case':38} {'collectives':>11} {'DTensor':>9} {'zellige':>9} {'ratio':>6}")
    meshes = {}
    for name, shape, old, new, extents in listed:
        mesh = meshes.setdefault(shape, init_device_mesh("cpu", shape))
        whole = torch.arange(float(torch.Size(extents).numel())).reshape(extents)
        given = distribute_tensor(whole, mesh, old, src_data_rank=None)
        ways = [lambda: given.redistribute(placements=new).to_local(), lambda: reshard(given, mesh, new).to_local()]
        count = collectives(ways[0])
        first, second = ways[0](), ways[1]()
        same = torch.equal(torch.as_tensor(first), second)
        assert same, f"{name}: results differ on process {rank}"
        del first, second
        ratios, times = [], []
        end = torch.tensor(time.monotonic() + seconds / len(listed))
        while True:
            turn = []
            for way in ways if len(ratios) % 2 == 0 else reversed(ways):
                dist.barrier()
                begun = time.perf_counter()
                result = way()
                if hasattr(result, "wait"):
                    result = result.wait()
                turn.append(time.perf_counter() - begun)
                del result
            if len(ratios) % 2:
                turn.reverse()
            slowest[:] = torch.tensor(turn)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            times.append(slowest.tolist())
            ratios.append((slowest[0] / slowest[1]).item())
            go_on = torch.tensor(int(time.monotonic() < end or len(ratios) < 5))
            dist.all_reduce(go_on, dist.ReduceOp.MIN)
            if not go_on:
                break
        if rank == 0:
            a, b = (statistics.median(t[k] for t in times) * 1e3 for k in (0, 1))
            print(f"{name:38} {count:11} {a:9.2f} {b:9.2f} {statistics.median(ratios):6.2f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--case", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (given.processes, os.path.join(folder, "store"), given.megabytes, given.seconds, given.case)
        mp.spawn(work, arguments, given.processes)


if __name__ == "__main__":
    main()
