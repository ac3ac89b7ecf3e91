"""Collectives between processes, each with cards of its own."""

import os
import socket
import subprocess
import sys

import collective_cases
from ranks import Ranks

CODE = """
import os, torch, torch.distributed as dist
dist.init_process_group("spyreccl")
rank = dist.get_rank()
x = torch.full((3, 70), float(rank + 1), device="spyre")
dist.all_reduce(x)
parts = [torch.zeros(2, device="spyre") for _ in range(2)]
dist.all_gather(parts, torch.full((2,), float(rank), device="spyre"))
y = torch.full((4,), float(rank), device="spyre")
dist.broadcast(y, src=1)
dist.barrier()
print(x.sum().item(), [p[0].item() for p in parts], y[0].item(), x.device.type)
dist.destroy_process_group()
"""

COLLECTIVES = """
import torch, torch.distributed as dist
dist.init_process_group("spyreccl")
rank, world = dist.get_rank(), dist.get_world_size()
mine = torch.arange(4.0, device="spyre") + 10 * rank
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
print([t.tolist() for t in (whole, part, mean, other, torch.cat(pieces), average)])
dist.destroy_process_group()
"""

SHARDED = """
import copy, torch, torch.distributed as dist, torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("spyreccl")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("spyre", (world,))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
plain = copy.deepcopy(model)
model.to("spyre")
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
ours, theirs = torch.optim.AdamW(model.parameters(), 0.01), torch.optim.AdamW(plain.parameters(), 0.01)
for step in range(2):
    x = torch.randn(8, 16)
    for m, optimizer, given in ((model, ours, x.chunk(world)[rank].to("spyre")), (plain, theirs, x)):
        optimizer.zero_grad()
        m(given).pow(2).mean().backward()
        optimizer.step()
error = (model[0].weight.full_tensor().cpu() - plain[0].weight).abs().max().item()
print(list(model[0].weight.to_local().shape), model[0].weight.device.type, error < 1e-5)
dist.destroy_process_group()
"""


def run(code, **environment):
    """What the last lines of two processes say."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2", GLOO_SOCKET_IFNAME="lo", **environment)
    ranks = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], env={**env, "RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for r in range(2)
    ]
    said = []
    for rank in ranks:
        out, err = rank.communicate(timeout=240)
        assert out.strip(), err[-2000:]
        said.append(out.strip().splitlines()[-1])
    return said


def test_two_processes():
    assert run(CODE) == ["630.0 [0.0, 1.0] 1.0 spyre"] * 2


def test_collectives_of_one_tensor():
    whole = [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]
    mean = [5.0, 6.0, 7.0, 8.0]
    assert run(COLLECTIVES) == [
        str([whole, [10.0, 12.0], [5.0, 6.0], [0.0, 1.0, 10.0, 11.0], [0.0, 1.0, 10.0, 11.0], mean]),
        str([whole, [14.0, 16.0], [7.0, 8.0], [2.0, 3.0, 12.0, 13.0], [2.0, 3.0, 12.0, 13.0], mean]),
    ]


def test_sharded_modules_train():
    assert run(SHARDED, ZELLIGE_FP32="keep") == ["[16, 16] spyre True"] * 2


def test_narrow_formats():
    """float32 in 16 bits and int64 in 32: every collective against its definition, and half of the bytes."""
    ranks = Ranks(2)
    try:
        assert ranks.run(collective_cases.reductions) == [[]] * 2
        assert ranks.run(collective_cases.large) == [[]] * 2
        assert ranks.run(collective_cases.moves) == [[]] * 2
        for found, _ in ranks.run(collective_cases.costs):
            # Five elements of two bytes; two microseconds, and 10 bytes at 63 GB/s in whole picoseconds.
            assert found[2] == ("reduce_scatter", "float32", (10,), 1, 10, 2.000159)
    finally:
        ranks.close()
