"""Training of divided models: functions that every process of a group runs. Each gives the losses of five steps."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

STEPS = 5
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05),
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, 0.02),
    "adamw one by one": lambda p: torch.optim.AdamW(p, 0.02, foreach=False),
}


class Net(nn.Module):
    """A gated layer with a residual."""

    def __init__(self, width=16, hidden=32):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(width, hidden), nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


TENSOR_PARALLEL = {"up": ColwiseParallel, "gate": ColwiseParallel, "down": RowwiseParallel}


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(Net(), Net())


def make_batches():
    generator = torch.Generator().manual_seed(2)
    return [(torch.randn(8, 16, generator=generator), torch.randn(8, 16, generator=generator)) for _ in range(STEPS)]


def train_on_the_cpu(optimizer):
    """The losses of one process that has the whole batch."""
    model = make_model()
    update, losses = OPTIMIZERS[optimizer](model.parameters()), []
    for x, y in make_batches():
        update.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses


def split_by_ddp(model):
    return nn.parallel.DistributedDataParallel(model.to("spyre")), True


def split_by_fsdp1(model, strategy):
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    wrapped = FullyShardedDataParallel(
        model.to("spyre"), sharding_strategy=ShardingStrategy[strategy], auto_wrap_policy=ModuleWrapPolicy({Net}), device_id=torch.device("spyre:0"),
        use_orig_params=True,
    )
    return wrapped, True


def split_by_fsdp2(model):
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("spyre", (dist.get_world_size(),))
    model.to("spyre")
    for part in (*model, model):
        fully_shard(part, mesh=mesh)
    return model, True


def split_by_tensor_parallel(model):
    mesh = init_device_mesh("spyre", (dist.get_world_size(),))
    for part in model.to("spyre"):
        parallelize_module(part, mesh, {k: v() for k, v in TENSOR_PARALLEL.items()})
    return model, False


def split_by_both(model):
    """One tensor-parallel group of all processes, and FSDP2 over groups of one: the wrappers of both are there."""
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("spyre", (1, dist.get_world_size()), mesh_dim_names=("dp", "tp"))
    for part in model.to("spyre"):
        parallelize_module(part, mesh["tp"], {k: v() for k, v in TENSOR_PARALLEL.items()})
        fully_shard(part, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return model, False


SPLITS = {
    "ddp": split_by_ddp,
    "fsdp1 full": lambda model: split_by_fsdp1(model, "FULL_SHARD"),
    "fsdp1 grad": lambda model: split_by_fsdp1(model, "SHARD_GRAD_OP"),
    "fsdp2": split_by_fsdp2,
    "tp": split_by_tensor_parallel,
    "tp and fsdp2": split_by_both,
}


def train(split, optimizer, compiled):
    """The losses of five steps, of the whole batch, and how many programs the last compiled function has."""
    torch._dynamo.reset()
    model, is_data_parallel = SPLITS[split](make_model())
    function = torch.compile(model, backend="spyre") if compiled else model
    update, losses = OPTIMIZERS[optimizer](model.parameters()), []
    rank, world = dist.get_rank(), dist.get_world_size()
    for x, y in make_batches():
        if is_data_parallel:
            x, y = x.chunk(world)[rank], y.chunk(world)[rank]
        update.zero_grad()
        loss = F.mse_loss(function(x.to("spyre")), y.to("spyre"))
        loss.backward()
        update.step()
        whole = loss.detach().clone()
        if is_data_parallel:
            dist.all_reduce(whole)
            whole /= world
        losses.append(whole.item())
    return losses, len(torch.spyre.last_report().programs) if compiled else 0
