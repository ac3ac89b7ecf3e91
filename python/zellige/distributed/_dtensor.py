"""DTensor: placements on a mesh as sides of a plan."""

from __future__ import annotations

import functools
import itertools
import operator
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Side:
    """Placements as a text, and the process of the group at every place of the mesh, the last dimension fastest."""

    text: str
    sizes: tuple
    ranks: tuple

    _whole = property(lambda self: self.text)


def is_dtensor(value):
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def _text(placements, mesh):
    words = []
    for placement in placements:
        if placement.is_replicate():
            words.append("Replicate()")
        elif placement.is_partial():
            raise ValueError(
                f"{placement}: a pending sum is no place of elements. Reduce it first: redistribute to Replicate() or Shard(dim)"
            )
        elif hasattr(placement, "split_factor"):
            words.append(f"_StridedShard(dim={placement.dim}, split_factor={placement.split_factor})")
        elif type(placement).__name__ == "Shard":
            words.append(f"Shard(dim={placement.dim})")
        else:
            raise ValueError(f"{placement}: accepted are Shard(dim), Replicate() and _StridedShard(dim, split_factor=..)")
    return f"({', '.join(words)}{',' if len(words) == 1 else ''}) mesh={list(mesh.shape)}"


def sides(value, mesh, group=None):
    """Placements on a DeviceMesh as a side; anything else as it is."""
    if isinstance(value, Side) or isinstance(value, str) or not isinstance(value, (list, tuple)):
        return value
    from torch.distributed.device_mesh import DeviceMesh

    if not isinstance(mesh, DeviceMesh):
        raise ValueError("placements are on a DeviceMesh: give mesh=device_mesh")
    return _side(tuple(value), mesh, None if group is dist.group.WORLD else group)


@functools.lru_cache(512)
def _ranks(mesh):
    """The processes of a mesh, the last dimension fastest. The mesh finds them anew whenever it is asked."""
    return tuple(mesh.mesh.flatten().tolist())


@functools.lru_cache(512)
def _side(placements, mesh, group):
    if len(placements) != mesh.ndim:
        raise ValueError(f"{len(placements)} placements on a mesh of {mesh.ndim} dimensions; one for each")
    ranks = _ranks(mesh)
    if group is not None:
        members = {rank: k for k, rank in enumerate(dist.get_process_group_ranks(group))}
        missing = [rank for rank in ranks if rank not in members]
        if missing:
            raise ValueError(f"the mesh has the process {missing[0]}, which is not in the group")
        ranks = tuple(members[rank] for rank in ranks)
    return Side(_text(placements, mesh), tuple(mesh.shape), ranks)


def _steps(sizes, labels):
    """The first label and what a step along every dimension adds; None where labels are no such sums."""
    # A mesh may number its processes in any order. Only an order that is a sum of steps is a layout, so that is
    # what is checked.
    places = list(itertools.product(*(range(n) for n in sizes)))
    at = dict(zip(places, labels))
    first = labels[0]
    unit = lambda k: tuple(int(j == k) for j in range(len(sizes)))
    steps = [at[unit(k)] - first if n > 1 else 0 for k, n in enumerate(sizes)]
    sums = all(at[p] == first + sum(i * s for i, s in zip(p, steps)) for p in places)
    return (first, steps) if sums else None


def numbers(src, dst, size):
    """How the devices of both sides are numbered, and the process of the group that has each number."""
    # The order of the group first, because then no table of ranks is needed; else the order of one of the meshes.
    for given in (None, src, dst):
        if given is not None and not isinstance(given, Side):
            continue
        order = list(range(size)) if given is None else list(given.ranks)
        order += [rank for rank in range(size) if rank not in set(order)]
        label = {rank: k for k, rank in enumerate(order)}
        found = []
        for side in (src, dst):
            if not isinstance(side, Side):
                found.append(None)
            elif len(set(side.ranks)) != len(side.ranks) or not all(r in label for r in side.ranks):
                raise ValueError(f"a mesh with processes that are not in the group of {size}, or twice in the mesh")
            else:
                found.append(_steps(side.sizes, [label[r] for r in side.ranks]))
        plain = [side for side in (src, dst) if not isinstance(side, Side)]
        if all(f is not None for f, side in zip(found, (src, dst)) if isinstance(side, Side)) and not (plain and given is not None):
            return found, None if given is None else order
    raise ValueError(
        "the processes of the two meshes are in no common order: one of the meshes must number processes evenly along its dimensions"
    )


def _reduced(tensor, mesh, placements):
    """The same without pending sums. Where the new sharding divides the mesh dimension of a sum, each process gets its part."""
    from torch.distributed.tensor import Replicate

    old = list(tensor.placements)
    if not any(p.is_partial() for p in old):
        return tensor
    settled = []
    for k, placement in enumerate(old):
        if not placement.is_partial():
            settled.append(placement)
            continue
        wanted = placements[k] if mesh == tensor.device_mesh else Replicate()
        dims = [getattr(p, "dim", None) for j, p in enumerate(old) if j != k]
        dims += [getattr(p, "dim", None) for j, p in enumerate(placements) if j != k]
        # A reduce-scatter gives each process its part of the sum at once, but only along a dimension that no other
        # dimension of the mesh divides.
        plain = type(wanted).__name__ == "Shard" and wanted.dim not in dims
        settled.append(wanted if plain else Replicate())
    return tensor.detach().redistribute(placements=settled)


def _covering(group, *meshes):
    """A group with the processes of all meshes."""
    if group is not None:
        return group
    first = meshes[0]
    if first.ndim == 1 and all(m == first for m in meshes):
        return first.get_group()
    return dist.group.WORLD


@functools.lru_cache(512)
def _spec(mesh, placements, shape, dtype):
    """What DTensor notes of a tensor; None where this PyTorch has it elsewhere."""
    try:
        from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
    except ImportError:
        return None
    return DTensorSpec(mesh, placements, tensor_meta=TensorMeta(shape, _stride(shape), dtype))


def _stride(shape):
    steps = itertools.accumulate((max(n, 1) for n in reversed(shape[1:])), operator.mul, initial=1)
    return tuple(steps)[::-1] if shape else ()


def reshard(tensor, mesh, placements, group, out, memory, timeout, progress, topology):
    """A DTensor on another mesh, or with other placements."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

    from ._reshard import _plan_of, _run

    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"reshard(dtensor, mesh, placements): mesh is a DeviceMesh, not {type(mesh).__name__}")
    if isinstance(placements, (str, bytes)) or not hasattr(placements, "__iter__"):
        raise TypeError("reshard(dtensor, mesh, placements): placements are a list, one for every dimension of the mesh")
    source = tensor.device_mesh
    if mesh.device_type != source.device_type:
        raise ValueError(f"from a mesh of {source.device_type} to one of {mesh.device_type}: a move stays on one kind of device")
    placements = tuple(_counted(p, tensor.ndim) for p in placements)
    tensor = _reduced(tensor, mesh, placements)
    group = _covering(group, source, mesh)
    rank = dist.get_rank()
    has = lambda m: rank in _ranks(m)
    with torch.no_grad():
        # A process may be in the group and in neither mesh; it takes part in the exchange without elements.
        local = tensor.to_local().contiguous() if has(source) else None
    result = None
    if out is not None and is_dtensor(out):
        if out.device_mesh != mesh or tuple(out.placements) != placements or out.shape != tensor.shape:
            raise ValueError("out: a DTensor of the same shape, on the mesh and with the placements of the result")
        result = out
        out = out.to_local() if has(mesh) else None
    src, dst = sides(tensor.placements, source, group), sides(placements, mesh, group)

    def find(dtype, rank, size):
        return _plan_of(src, dst, tensor.shape, dtype, rank, size, None, None, memory, topology)

    moved = _run(local, out, group, tensor.dtype, find, timeout, progress, silent=True)
    if result is not None:
        return result
    # Built from a cached specification, which `from_local` would derive again at every call.
    spec = _spec(mesh, placements, tensor.shape, tensor.dtype)
    if spec is not None:
        return DTensor(moved, spec, requires_grad=False)
    return DTensor.from_local(moved, mesh, placements, run_check=False, shape=tensor.shape, stride=_stride(tensor.shape))


def _counted(placement, ndim):
    """A placement whose dimension is counted from the front."""
    dim = getattr(placement, "dim", None)
    if dim is None or dim >= 0:
        return placement
    from torch.distributed.tensor import Shard

    return Shard(dim + ndim) if type(placement).__name__ == "Shard" else placement
