"""DTensor placements beside PyTorch: which device holds which elements, and where in its local tensor."""

from __future__ import annotations

import torch
from common import Tally, arguments, coordinates, size
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard


def placements_of(rng, mesh, rank: int) -> list:
    out = []
    for k in range(len(mesh)):
        kind = rng.choice(["shard", "shard", "shard", "replicate", "strided"])
        dim = rng.randrange(rank)
        if kind == "shard":
            out.append(Shard(dim))
        elif kind == "strided" and any(n > 1 for n in mesh[k + 1 :]):
            # A strided shard leaves room for a shard of a later mesh dimension.
            later = rng.choice([j for j in range(k + 1, len(mesh)) if mesh[j] > 1])
            out.append(_StridedShard(dim, split_factor=mesh[later]))
        else:
            out.append(Replicate())
    return out


def local(tensor, mesh, placements, at):
    """What `distribute_tensor` gives to one device: each placement cuts what those before it left."""
    for n, k, placement in zip(mesh, at, placements):
        if not placement.is_replicate():
            parts, _ = placement._split_tensor(tensor, n, with_padding=False, contiguous=True)
            tensor = parts[k]
    return tensor


def main() -> None:
    zellige, rng, cases = arguments(600)
    tally = Tally(f"dtensor (torch {torch.__version__})")
    refused = 0
    for _ in range(cases):
        mesh = rng.choice([[2], [3], [4], [2, 2], [2, 4], [3, 2], [1, 4], [2, 2, 2], [2, 3, 2]])
        shape = [rng.choice([1, 2, 3, 4, 6, 8, 12]) for _ in range(rng.choice([1, 2, 2, 3]))]
        placements = placements_of(rng, mesh, len(shape))
        text = f"{tuple(placements)!r} mesh={mesh}"
        whole = torch.arange(size(shape)).reshape(shape)
        want = {c: [] for c in coordinates(shape)}
        every = list(coordinates(shape))
        for at in coordinates(mesh):
            own = local(whole, mesh, placements, at)
            if not any(isinstance(p, _StridedShard) for p in placements):
                lengths, _ = _compute_local_shape_and_global_offset(shape, mesh, list(at), placements)
                tally.same(f"{text} of {shape} at {at}: the local shape", list(own.shape), list(lengths))
            for place, element in enumerate(own.reshape(-1).tolist()):
                want[every[element]].append((at, place))
        # Where shards are of different lengths, our addresses are in the longest one: compare coordinates in the shard.
        answer = zellige.ask("apply", layout=text, shape=shape, coords=[list(c) for c in every])
        if "error" in answer:
            # Parts of parts of different lengths have no layout of the algebra.
            cut: dict = {}
            for n, p in zip(mesh, placements):
                if not p.is_replicate():
                    cut.setdefault(p.dim, []).append(n * (p.split_factor if isinstance(p, _StridedShard) else 1))
            uneven = any(len(parts) > 1 and shape[d] % size(parts) for d, parts in cut.items())
            uneven |= any(isinstance(p, _StridedShard) and shape[p.dim] % (p.split_factor * n) for n, p in zip(mesh, placements))
            left = any(isinstance(p, _StridedShard) for p in placements)
            if "no layout of the algebra" in answer["error"]["message"] and (uneven or left):
                refused += 1
                tally.good()
            else:
                tally.bad(f"{text} of {shape}", answer["error"]["message"], "an answer")
            continue
        largest = list(local(whole, mesh, placements, [0] * len(mesh)).shape)
        ours, theirs = {}, {}
        for c, places in zip(every, answer["ok"]["points"]):
            ours[c] = sorted((tuple(p.get(f"mesh{k}", 0) for k in range(len(mesh))), p.get("m", 0)) for p in places)
        for c, held in want.items():
            theirs[c] = []
            for at, place in held:
                own = local(whole, mesh, placements, at)
                inside = torch.unravel_index(torch.tensor(place), own.shape) if own.dim() else ()
                where = 0
                for n, i in zip(largest, inside):
                    where = where * n + int(i)
                theirs[c].append((at, where))
            theirs[c].sort()
        tally.same(f"{text} of {shape}", ours, theirs)
    print(f"  {refused} without a layout of the algebra")
    tally.finish()


main()
