"""Collectives between processes, each with cards of its own."""

import os
import socket
import subprocess
import sys

import collective_cases
import pytest
from ranks import Ranks

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


def test_sharded_modules_train():
    assert run(SHARDED, ZELLIGE_FP32="keep") == ["[16, 16] spyre True"] * 2


@pytest.fixture(scope="module")
def two():
    ranks = Ranks(2)
    yield ranks
    ranks.close()


def test_two_processes(two):
    assert two.run(collective_cases.plain) == [(630.0, [0.0, 1.0], 1.0, "spyre")] * 2


def test_collectives_of_one_tensor(two):
    whole = [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]
    mean = [5.0, 6.0, 7.0, 8.0]
    assert two.run(collective_cases.of_one_tensor) == [
        [whole, [10.0, 12.0], [5.0, 6.0], [0.0, 1.0, 10.0, 11.0], [0.0, 1.0, 10.0, 11.0], mean],
        [whole, [14.0, 16.0], [7.0, 8.0], [2.0, 3.0, 12.0, 13.0], [2.0, 3.0, 12.0, 13.0], mean],
    ]


def test_narrow_formats(two):
    """float32 in 16 bits and int64 in 32: every collective against its definition, and half of the bytes."""
    assert two.run(collective_cases.reductions) == [[]] * 2
    assert two.run(collective_cases.large) == [[]] * 2
    assert two.run(collective_cases.moves) == [[]] * 2
    for found, _ in two.run(collective_cases.costs):
        # Five elements of two bytes; two microseconds, and 10 bytes at 63 GB/s in whole picoseconds.
        assert found[2] == ("reduce_scatter", "float32", (10,), 1, 10, 2.000159)
