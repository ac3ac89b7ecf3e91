"""Elements by index: reading, writing, adding up, and joining tensors."""

from __future__ import annotations

import torch

from ... import _native
from .registration import kernel, run, run_into


@kernel("cat")
def _cat(tensors, dim=0):
    # Empty tensors of one dimension are left out, whatever the others are.
    kept = [t for t in tensors if t.dim() != 1 or t.numel()]
    if not kept:
        return tensors[0].clone()
    if len(kept) == 1 and len(tensors) > 1:
        return kept[0].clone()
    last = torch.channels_last
    if all(t.dim() == 4 and t.is_contiguous(memory_format=last) for t in kept) and not all(t.is_contiguous() for t in kept):
        # If all operands are channels-last, so is the result.
        return run("cat", [t.permute(0, 2, 3, 1) for t in kept], dim=(0, 3, 1, 2)[dim]).permute(0, 3, 1, 2)
    return run("cat", kept, dim=dim)


@kernel("index_fill_.int_Scalar")
def _index_fill(self, dim, index, value):
    if self.dim() == 0:
        return self.fill_(value) if index.numel() else self
    dim = dim % self.dim()
    return _index_put_(self, [None] * dim + [index], self.new_full((), value))


@kernel("index_fill_.int_Tensor")
def _index_fill_tensor(self, dim, index, value):
    return _index_fill(self, dim, index, value.item())


def _expanded(indices, self):
    """Indices as integers on the device, one entry per dimension of the tensor they start at."""
    out = []
    for index in indices:
        if index is None:
            out.append(None)
            continue
        if index.dtype in (torch.bool, torch.uint8):
            out.extend(index.nonzero().unbind(1) if index.dim() else [index.nonzero().flatten()])
            continue
        out.append(index)
    for index in out:
        if index is not None and index.device.type == "spyre" and index.device != self.device:
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({self.device}), "
                f"not on {index.device}"
            )
    out = [i if i is None else i.to(self.device) for i in out]
    if len(out) > self.dim():
        raise IndexError(
            f"too many indices for tensor of dimension {self.dim()} (got {len(out)})"
        )
    return out


def _front(self, indices):
    """The tensor with its indexed dimensions first, and where those of the index go in the result."""
    used = [d for d, i in enumerate(indices) if i is not None]
    rest = [d for d in range(self.dim()) if d not in used]
    adjacent = used == list(range(used[0], used[-1] + 1))
    at = used[0] if adjacent else 0
    return self.permute(used + rest), [indices[d] for d in used], at


def _placed(result, at, rank):
    """Moves the leading dimensions, which are those of the index, behind `at` others."""
    if at == 0:
        return result
    order = list(range(rank, rank + at)) + list(range(rank)) + list(range(rank + at, result.dim()))
    return result.permute(order)


def within(self, indices):
    """Clamps indices that PyTorch computed and did not check, where the card computes coordinates in 16 bits."""
    if _native.keeps(torch.float32):
        return indices
    at = [i if i is None or i.dtype in (torch.bool, torch.uint8) else i.clamp(-n, n - 1) for i, n in zip(indices, self.shape)]
    return at


@kernel("_unsafe_index.Tensor")
def _unsafe_index_tensor(self, indices):
    return _index_tensor(self, within(self, indices))


@kernel("index.Tensor")
def _index_tensor(self, indices):
    indices = _expanded(indices, self)
    if all(i is None for i in indices):
        return self.clone()
    front, used, at = _front(self, indices)
    return _selected(front, torch.broadcast_tensors(*used), at)


def _selected(front, used, at):
    """The elements at the indices of the first dimensions, in a tensor with the strides that it has on the CPU."""
    rank, rest, steps = used[0].dim(), list(front.shape[len(used) :]), list(front.stride()[len(used) :])
    shape = [*rest[:at], *used[0].shape, *rest[at:]]
    # PyTorch's iterator sees the tensor with a step of 0 in the dimensions of the index, and the indices with
    # one element in the others.
    source = shape, [*steps[:at], *[0] * rank, *steps[at:]]
    indices = [_aligned(index, at, len(rest) - at, 1 in rest) for index in used]
    stride = _native.choose_strides(shape, [source, *indices])
    if 0 in shape:
        if 0 in front.shape[: len(used)] and used[0].numel():
            raise IndexError("index is out of bounds for a dimension with size 0")
        return torch.empty_strided(shape, stride, dtype=front.dtype, device=front.device)
    places = list(range(at, at + rank)) + list(range(at)) + list(range(at + rank, len(shape)))
    if all(stride[d] == s for d, s in zip(places, _row_major([shape[d] for d in places]))):
        return _placed(run("index", [front, *used]), at, rank)
    out = torch.empty_strided(shape, stride, dtype=front.dtype, device=front.device)
    run_into("index", [front, *used], out.permute(places))
    return out


def _aligned(index, before, after, exact):
    """The size and the strides of an index among the other dimensions of the result, where it has one element. The
    strides there matter where the result has one element too: then PyTorch's own view has the ``exact`` ones."""
    shape = [1] * before + list(index.shape) + [1] * after
    if exact:
        return shape, list(torch.empty_strided(index.shape, index.stride(), device="meta").view(shape).stride())
    return shape, [0] * before + list(index.stride()) + [0] * after


def _row_major(shape):
    strides = [1] * len(shape)
    for d in range(len(shape) - 1, 0, -1):
        strides[d - 1] = strides[d] * shape[d]
    return strides


@kernel("take")
def _take(self, index):
    # The result is row-major whatever the strides of the index are.
    return _index_tensor(self.flatten(), [index.contiguous()])


def wrapped(tensor):
    """Wraps sums of uint8 and bool to their dtype: the card adds them in wider integers."""
    if tensor.dtype is torch.uint8:
        tensor.copy_(tensor.to(torch.int32).to(torch.uint8))
    elif tensor.dtype is torch.bool:
        tensor.copy_(tensor.to(torch.int32) != 0)
    return tensor


@kernel("index_put")
def _index_put(self, indices, values, accumulate=False):
    return _index_put_(self.clone(), indices, values, accumulate)


@kernel("index_put_", "_index_put_impl_")
def _index_put_(self, indices, values, accumulate=False, unsafe=False):
    masks = [i for i in indices if i is not None]
    if not masks:
        return self.add_(values) if accumulate else self.copy_(values)
    mask = masks[0]
    lone = len(masks) == 1 and mask.dtype in (torch.bool, torch.uint8)
    if lone and values.numel() == 1 and not accumulate and indices[0] is not None:
        mask = mask.to(self.device, torch.bool)
        for _ in range(self.dim() - mask.dim()):
            mask = mask.unsqueeze(-1)
        return torch.ops.aten.masked_fill_.Scalar(self, mask, values.item())
    indices = _expanded(indices, self)
    front, used, at = _front(self, indices)
    used = torch.broadcast_tensors(*used)
    rank = used[0].dim()
    rest = list(front.shape[len(used) :])
    shape = rest[:at] + list(used[0].shape) + rest[at:]
    values = values.to(self.device).expand(shape)
    if at:
        values = values.permute(list(range(at, at + rank)) + list(range(at)) + list(range(at + rank, len(shape))))
    if values.numel():
        _native.run_into("index_put", [front, *used, values], dict(accumulate=accumulate), [front])
        if accumulate:
            wrapped(front)
    return self


@kernel("scatter.value")
def _scatter_value(self, dim, index, value):
    return run("scatter", [self, index, self.new_full(index.shape, value)], dim=dim)


@kernel("scatter_.value")
def _scatter_value_(self, dim, index, value):
    return run_into("scatter", [self, index, self.new_full(index.shape, value)], self, dim=dim)
