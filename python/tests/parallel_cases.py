"""Tensor-parallel models: functions that every process of a group of four runs, on meshes of two and of four."""

import copy
import functools
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module


class Mlp(nn.Module):
    def __init__(self, width=64, hidden=256):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=True)
        self.down = nn.Linear(hidden, width, bias=True)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Attention(nn.Module):
    """Causal attention; heads are counted by what the projections give, so that a process may have a part of them."""

    def __init__(self, width=64, head=16):
        super().__init__()
        self.head = head
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = Attention(width), Mlp(width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


MLP = {"gate": ColwiseParallel, "up": ColwiseParallel, "down": RowwiseParallel}
ATTENTION = {"q": ColwiseParallel, "k": ColwiseParallel, "v": ColwiseParallel, "o": RowwiseParallel}
BLOCK = {**{f"attention.{k}": v for k, v in ATTENTION.items()}, **{f"mlp.{k}": v for k, v in MLP.items()}}
MODELS = {"mlp": (Mlp, MLP), "attention": (Attention, ATTENTION), "block": (Block, BLOCK)}


def sequence_plan():
    """The block with activations between its halves divided along the sequence."""
    plan = {"first": SequenceParallel(), "second": SequenceParallel()}
    for half, columns, row in (("attention", "qkv", "o"), ("mlp", ("gate", "up"), "down")):
        plan[half] = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
        plan.update({f"{half}.{c}": ColwiseParallel() for c in columns})
        plan[f"{half}.{row}"] = RowwiseParallel(output_layouts=Shard(1))
    return plan


@functools.cache
def mesh(size):
    """The first dimension has the groups of this size."""
    world = dist.get_world_size()
    if size == world:
        return init_device_mesh("spyre", (world,))
    return init_device_mesh("spyre", (world // size, size), mesh_dim_names=("dp", "tp"))["tp"]


def made(name, dtype=torch.float32):
    torch.manual_seed(0)
    make, plan = MODELS[name]
    model = make().to(dtype)
    return model, {k: v() for k, v in plan.items()}, torch.randn(2, 12, 64, dtype=dtype)


def error_of(got, want):
    got, want = got.detach().cpu().float(), want.detach().cpu().float()
    return ((got - want).norm() / want.norm()).item()


def forward(name, size, compiled, dtype=torch.float32):
    """The relative difference to one card, the collectives, and what the report says of them."""
    torch._dynamo.reset()
    model, plan, x = made(name, dtype)
    with torch.no_grad():
        one = copy.deepcopy(model).to("spyre")
        want = one(x.to("spyre"))
        parallel = parallelize_module(model.to("spyre"), mesh(size), plan)
        function = torch.compile(parallel, backend="spyre") if compiled else parallel
        if compiled:
            function(x.to("spyre"))
        torch.spyre.reset_collectives()
        got = function(x.to("spyre"))
    found = [(c.op, c.size, c.bytes, c.us) for c in torch.spyre.collectives()]
    report = None
    if compiled:
        r = torch.spyre.last_report()
        report = {
            "collectives": [(c.op, c.size, c.bytes, c.us) for c in r.collectives], "text": str(r), "breaks": len(r.breaks),
            "latency": r.latency_us, "programs": len(r.current), "programs_us": sum(p.latency_us for p in r.current),
            "weights": sum(b["weight"] for p in r.current for b in p.report()["buffers"] if not b["place"].startswith("over")),
            "eager": [op for op, _ in r.fallbacks], "dict": r.to_dict()["collectives"], "page": _section(r, "collectives"),
        }
    local = parallel.get_submodule(next(iter(plan))).weight.to_local().shape[0]
    return error_of(got, want), found, report, local


def _section(report, name):
    """A section of the page that a report saves."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        report.save(path)
        with open(path, encoding="utf-8") as file:
            return file.read().split(f'<section id="{name}">')[1].split("</section>")[0]


def updated(size):
    """Weights that change in place, as an optimizer changes them, are written anew."""
    torch._dynamo.reset()
    model, plan, x = made("mlp")
    x = x.to("spyre")
    with torch.no_grad():
        one = copy.deepcopy(model).to("spyre")
        parallel = parallelize_module(model.to("spyre"), mesh(size), plan)
        function = torch.compile(parallel, backend="spyre")
        first = error_of(function(x), one(x))
        for m in (one, parallel):
            for p in m.parameters():
                p.mul_(1.5)
        return first, error_of(function(x), one(x))


def sequence(size, compiled):
    torch._dynamo.reset()
    model, _, x = made("block")
    with torch.no_grad():
        want = copy.deepcopy(model).to("spyre")(x.to("spyre"))
        parallel = parallelize_module(model.to("spyre"), mesh(size), sequence_plan())
        function = torch.compile(parallel, backend="spyre") if compiled else parallel
        part = x.chunk(size, 1)[mesh(size).get_local_rank()].to("spyre")
        torch.spyre.reset_collectives()
        got = function(part)
    got = got.to_local() if hasattr(got, "to_local") else got
    kinds = sorted({c.op for c in torch.spyre.collectives()})
    return error_of(got, want.chunk(size, 1)[mesh(size).get_local_rank()]), kinds


def training(size, compiled):
    """Gradients of the input and of every weight after one step."""
    torch._dynamo.reset()
    model, plan, x = made("mlp")
    one = copy.deepcopy(model).to("spyre")
    parallel = parallelize_module(model.to("spyre"), mesh(size), plan)
    function = torch.compile(parallel, backend="spyre") if compiled else parallel
    results = []
    for f, m in ((one, one), (function, parallel)):
        given = x.to("spyre").requires_grad_()
        f(given).pow(2).sum().backward()
        grads = {n: p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad for n, p in m.named_parameters()}
        results.append({"x": given.grad, **grads})
    want, got = results
    report = torch.spyre.last_report() if compiled else None
    kinds = [c.op for c in report.collectives] if report is not None else []
    return {n: error_of(got[n], want[n]) for n in want}, kinds


def llama(size, compiled):
    """A small Llama of `transformers`, divided as its own plan says."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch._dynamo.reset()
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, vocab_size=128, use_cache=False,
    )
    model = LlamaForCausalLM(config).eval()
    tokens = torch.arange(10)[None] % 128
    plan = {}
    for i in range(config.num_hidden_layers):
        plan.update({f"model.layers.{i}.self_attn.{k}_proj": ColwiseParallel() for k in "qkv"})
        plan[f"model.layers.{i}.self_attn.o_proj"] = RowwiseParallel()
        plan.update({f"model.layers.{i}.mlp.{k}_proj": ColwiseParallel() for k in ("gate", "up")})
        plan[f"model.layers.{i}.mlp.down_proj"] = RowwiseParallel()
    plan["lm_head"] = ColwiseParallel(output_layouts=Replicate())
    with torch.no_grad():
        want = copy.deepcopy(model).to("spyre")(tokens.to("spyre")).logits
        parallel = parallelize_module(model.to("spyre"), mesh(size), plan)
        function = torch.compile(parallel, backend="spyre") if compiled else parallel
        torch.spyre.reset_collectives()
        got = function(tokens.to("spyre")).logits
    return error_of(got, want), [c.op for c in torch.spyre.collectives()]


def profiled(size):
    """The events of a profile that are collectives, in tables and in the trace."""
    import json
    import tempfile

    torch._dynamo.reset()
    model, plan, x = made("mlp")
    with torch.no_grad():
        parallel = parallelize_module(model.to("spyre"), mesh(size), plan)
        function = torch.compile(parallel, backend="spyre")
        x = x.to("spyre")
        function(x)
        torch.spyre.reset_collectives()
        with torch.profiler.profile() as prof:
            function(x)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        prof.export_chrome_trace(file.name)
        with open(file.name) as f:
            trace = json.load(f)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "thread_name"}
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["name"] == "all_reduce"]
    drawn = [(names[e["pid"], e["tid"]], e["cat"], e["args"]) for e in events]
    table = [(e.key, e.count, e.device_time_total) for e in prof.key_averages() if e.key == "all_reduce"]
    transfers = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["name"] in ("upload", "download")]
    return drawn, table, [c.us for c in torch.spyre.collectives()], len(transfers)
