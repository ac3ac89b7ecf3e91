"""A model divided over several cards: torchrun --nproc-per-node 4 examples/python/tensor_parallel.py

Each process has a card of its own. Layers are divided as Megatron-LM divides them, the compiled program of a card ends
where its results are added to those of the others, and the report says what that costs.
"""

import copy

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


dist.init_process_group("spyreccl")
cards = dist.get_world_size()
torch.manual_seed(0)
model = Mlp(1024, 4096).half()
x = torch.randn(64, 1024).half().to("spyre")
with torch.no_grad():
    want = torch.compile(copy.deepcopy(model).to("spyre"), backend="spyre")(x)
    alone = torch.spyre.last_report().latency_us
    torch._dynamo.reset()
    plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    parallel = parallelize_module(model.to("spyre"), init_device_mesh("spyre", (cards,)), plan)
    got = torch.compile(parallel, backend="spyre")(x)
report = torch.spyre.last_report()
error = ((got - want).float().norm() / want.float().norm()).item()
if dist.get_rank() == 0:
    print(report)
    print(f"relative difference to one card: {error:.1e}")
    print(f"one card: {alone:.1f} us, {cards} cards: {report.latency_us:.1f} us, of which {report.collectives_us:.1f} us between cards (computed)")
dist.destroy_process_group()
