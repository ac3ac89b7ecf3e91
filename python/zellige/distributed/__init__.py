"""Tensors from one sharding to another, over the processes of ``torch.distributed``.

A sharding is a layout: its device axes say which rank holds an element, its memory axis where in the shard. Two of them
over one tensor are a plan of who sends what to whom; every process finds its own part of it, packs, exchanges and unpacks.
Each element travels once, straight to whom needs it, whatever the two shardings are::

    import torch, torch.distributed as dist, zellige.distributed
    dist.init_process_group("gloo")                           # 4 processes, as torchrun starts them

    rows = torch.full((2, 8), float(dist.get_rank()))         # rows over 4 ranks of a tensor of 8 x 8
    columns = zellige.distributed.reshard(
        rows, "P('x', None)", "P(None, 'x')", mesh="x=4", shape=(8, 8))
    columns.shape                                             # torch.Size([8, 2])

    # DTensor: any placements, also on another mesh
    d = zellige.distributed.reshard(dtensor, mesh, [Shard(1), Shard(0)])

:func:`reshard` moves; :func:`plan` says what a move costs, without moving. :class:`ReshardError` is what processes raise
together when one of them cannot go on.
"""

from ._errors import ReshardError
from ._reshard import Plan, plan, reshard

__all__ = ["Plan", "ReshardError", "plan", "reshard"]
