"""Records what DTensor's `redistribute` does between random placements, for tests/dtensor.rs.

    python crates/reshard/tests/dtensor/record.py > crates/reshard/tests/dtensor/chains.jsonl

Needs PyTorch; nothing is sent, as the process group is PyTorch's fake one. Each line has the sizes of the mesh, the shape, the
dimension that every mesh axis divides before and after (null: copies), and the steps that PyTorch planned. That the planned
collectives are those that ran is checked here by CommDebugMode; on a CPU PyTorch runs an all-to-all as an all-gather.
"""

import json
import logging
import random
import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, _redistribute, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore

KINDS = {"all_gather": "all-gather", "all_to_all": "all-to-all", None: "slice"}
CASES = 60
planned = []
original = _redistribute._gen_transform_infos_non_cached


def recorded(*args, **kwargs):
    infos = original(*args, **kwargs)
    planned.append(infos)
    return infos


def placements(dims):
    return [Replicate() if d is None else Shard(d) for d in dims]


def main():
    logging.disable(logging.WARNING)
    _redistribute._gen_transform_infos_non_cached = recorded
    _redistribute._gen_transform_infos = recorded
    pick = random.Random(19)
    print(json.dumps({"torch": torch.__version__.split("+")[0]}))
    for sizes in [(4,), (2, 4), (3, 2), (2, 2, 2), (2, 3, 2)]:
        ranks = 1
        for n in sizes:
            ranks *= n
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
        mesh = init_device_mesh("cpu", sizes)
        for _ in range(CASES):
            shape = [ranks * pick.choice([1, 2, 3]) for _ in range(pick.choice([1, 2, 3]))]
            dims = lambda: [pick.choice([None, *range(len(shape))]) for _ in sizes]
            before, after = dims(), dims()
            local = list(shape)
            for axis, dim in enumerate(before):
                if dim is not None:
                    local[dim] //= sizes[axis]
            tensor = DTensor.from_local(torch.zeros(local), mesh, placements(before), run_check=False)
            planned.clear()
            with CommDebugMode() as seen:
                tensor.redistribute(placements=placements(after))
            infos = planned[-1] if planned else []
            steps = [[KINDS[i._comm_type_key()], i.mesh_dim] for i in infos]
            sent = sum(kind != "slice" for kind, _ in steps)
            if sum(seen.get_comm_counts().values()) != sent:
                sys.exit(f"{sizes} {shape} {before} {after}: planned {steps}, ran {dict(seen.get_comm_counts())}")
            print(json.dumps({"mesh": sizes, "shape": shape, "from": before, "to": after, "steps": steps}))
        dist.destroy_process_group()


main()
