"""Kernels on the dispatcher.

Most are rows of a table in Rust. Here are the others: factories, copies, views, random numbers, and
operators whose arguments are not the operation's. Each checks and rearranges arguments; what happens
to elements happens on the card.
"""

from __future__ import annotations

import math

import torch

from .. import _native
from . import convolutions, dynamic, gradients, random
from .fallback import boxed, by_name, record
from .registry import register

_OWN: dict[str, object] = {}


def _kernel(*names):
    """Registers a function for operators of ATen."""

    def register(function):
        # A frame of ours inside a graph break must not be compiled itself.
        function = torch._disable_dynamo(function)
        for name in names:
            _OWN[name] = function
        return function

    return register


def _run(op, operands, **attributes):
    return _native.run(op, operands, attributes)


def _into(op, operands, out, **attributes):
    _native.run_into(op, operands, attributes, [out])
    return out


def _alike(op, input, **attributes):
    """An operation whose result lies in memory as its operand does."""
    if input.is_contiguous():
        return _run(op, [input], **attributes)
    return _into(op, [input], torch.empty_like(input), **attributes)


def _index(device) -> int:
    index = torch.spyre.current_device() if device is None or device.index is None else device.index
    if index:
        gradients.several_cards()
    return index


# Factories.


@_kernel("empty.memory_format")
def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    if pin_memory:
        raise RuntimeError("pin_memory is for host memory; the device has its own")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    stride = None
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        stride = list(torch.empty(size, device="meta", memory_format=memory_format).stride())
    return _native.empty(size, dtype, _index(device), stride)


@_kernel("empty_strided")
def _empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    if pin_memory:
        raise RuntimeError("pin_memory is for host memory; the device has its own")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if _is_dense(size, stride):
        return _native.empty(size, dtype, _index(device), stride)
    # Memory that the tensor does not fill, or where elements share a place, is a view of a line.
    line = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    return _native.as_strided(_native.empty([line], dtype, _index(device), None), size, stride, 0)


def _is_dense(size, stride) -> bool:
    """Whether a tensor fills its memory, in some order of its dimensions, with one element in each place."""
    step = 1
    for s, n in sorted((s, n) for n, s in zip(size, stride) if n != 1):
        if s != step:
            return False
        step *= n
    return True


@_kernel("arange.start_out")
def _arange_out(start, end, step=1, *, out):
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(x, int) for x in (start, end, step))
    # Whole numbers are counted as such: a quotient would lose the last ones of large bounds.
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    if list(out.shape) != [count]:
        out.resize_([count])
    if count == 0:
        return out
    if not out.dtype.is_floating_point:
        # The number of elements comes from the bounds as they are, the elements from whole ones.
        start, step = int(start), int(step)
        if not -(2**63) <= start + step * count < 2**63:
            # The end is not reached: it may lie past the integers although no element does.
            return torch.add(torch.arange(count, device=out.device) * step, start, out=out)
    return _into("arange", [], out, start=start, end=start + step * count, step=step, **_made_like(out))


@_kernel("linspace.out")
def _linspace_out(start, end, steps, *, out):
    if list(out.shape) != [steps]:
        out.resize_([steps])
    if steps == 0:
        return out
    if not out.dtype.is_floating_point:
        start, end = int(start), int(end)
    attributes = dict(start=float(start), end=float(end), steps=steps)
    return _into("linspace", [], out, **attributes, **_made_like(out))


@_kernel("eye.out")
def _eye_out(n, *, out):
    return _eye_m_out(n, n, out=out)


@_kernel("eye.m_out")
def _eye_m_out(n, m, *, out):
    if list(out.shape) != [n, m]:
        out.resize_([n, m])
    return out if out.numel() == 0 else _into("eye", [], out, n=n, m=m, **_made_like(out))


def _made_like(out) -> dict:
    """The attributes of a factory whose result goes into a tensor."""
    wide = _native.tensor_layout(out).device_dtype in (_native.DataFormats.IEEE_FP32, _native.DataFormats.IEEE_INT64)
    return dict(dtype=out.dtype, wide=wide, device=out.device.index)


# Views and storages.


# Functions of the native module have no frame that could be compiled: they are kernels as they are.
_OWN["view"] = _OWN["_unsafe_view"] = _native.view
_OWN["as_strided"] = _OWN["_reshape_alias"] = _native.as_strided
_OWN["unfold"] = _native.unfold


@_kernel("resize_")
def _resize(self, size, *, memory_format=None):
    if dynamic.resize(self, size, memory_format):
        return self
    if list(self.shape) != list(size):
        # Another storage takes the place of this one: a stick layout cannot grow where it is.
        if self.dtype in _HELD:
            made = torch.zeros(size, dtype=self.dtype).flatten()
            kept = self.detach().cpu().flatten()[: made.numel()]
            made[: kept.numel()] = kept
            self.data = made.view(size).to(self.device)
            return self
        self.data = _native.resized(self.detach().contiguous(), size, self.dtype)
    return self


@_kernel("set_.source_Tensor")
def _set_tensor(self, source):
    self.data = source
    return self


@_kernel("set_.source_Storage_storage_offset", "set_.source_Storage", "set_")
def _set_storage(self, *args, **kwargs):
    raise NotImplementedError(
        "a storage of the device has the layout of its tensor, and cannot be given to another: use "
        "set_(tensor) or copy_(tensor)"
    )


# Copies.


@_kernel("_copy_from")
def _copy_from(self, dst, non_blocking=False):
    if self.dtype is not dst.dtype:
        if self.device.type != "spyre":
            self = self.to(dst.dtype)
        elif dst.device.type != "spyre":
            dst.copy_(self.cpu())
            return dst
        else:
            self = _cast(self, dst.dtype)
    _native.copy(self, dst)
    return dst


@torch._disable_dynamo
def _copy_from_lazy(self, dst, non_blocking=False):
    """A copy where one side is a lazy conjugate or negative. PyTorch would copy into a resolved copy of
    ``dst`` and forget it, as the schema does not say that ``dst`` is written."""
    self = self.resolve_conj().resolve_neg()
    if dst.is_conj() or dst.is_neg():
        return dst.copy_(self.cpu())
    return torch.ops.aten._copy_from(self, dst, non_blocking)


@_kernel("_copy_from_and_resize")
def _copy_from_and_resize(self, dst):
    if dst.shape != self.shape:
        dst.resize_(self.shape)
    return _copy_from(self, dst)


# What the card holds and does not compute with.
_HELD = (torch.float64, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64)


def _physical(tensor):
    """A tensor without the bit that says that its elements are meant conjugated, or with another sign."""
    if tensor.is_conj():
        return torch._conj(tensor).cpu().conj_physical().to(tensor.device)
    if tensor.is_neg():
        return torch._neg_view(tensor).cpu().neg().to(tensor.device)
    return tensor


@_kernel("_local_scalar_dense")
def _item(self):
    return self.cpu().item() if self.dtype in _HELD else _native.item(self)


@_kernel("view_as_real", "view_as_complex")
def _view_as(self):
    # Bits of complex numbers lie on the card as those of integers: what PyTorch has as a view is a copy here.
    op = torch.view_as_real if self.is_complex() else torch.view_as_complex
    record(f"aten::{op.__name__}", self.numel() * self.element_size(), f"the card holds {self.dtype}, and does not compute with it")
    return op(self.cpu().resolve_conj()).to(self.device)


def _cast(tensor, dtype):
    if dtype in _HELD or tensor.dtype in _HELD:
        held = dtype if dtype in _HELD else tensor.dtype
        record("aten::_to_copy", tensor.numel() * tensor.element_size(), f"the card holds {held}, and does not compute with it")
        return tensor.cpu().to(dtype).to(tensor.device)
    return _run("cast", [tensor], dtype=dtype, wide=_native.keeps(dtype) or None)


@_kernel("_to_copy")
def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    if self.dtype in _HELD:
        self = _physical(self)
    dtype = self.dtype if dtype is None else dtype
    device = self.device if device is None else device
    if device.type == "spyre" and device.index is None:
        device = torch.device("spyre", torch.spyre.current_device())
    if device == self.device:
        if memory_format not in (None, torch.preserve_format):
            out = torch.empty(self.shape, dtype=dtype, device=device, memory_format=memory_format)
            return out.copy_(self)
        return _clone(self) if dtype == self.dtype else _cast(self, dtype)
    out = torch.empty_like(self, device=device, memory_format=memory_format or torch.preserve_format)
    _native.copy(self, out)
    return out if dtype == self.dtype else out.to(dtype)


@_kernel("clone")
def _clone(self, *, memory_format=None):
    if self.dtype in _HELD:
        self = _physical(self)
        out = torch.empty_like(self, memory_format=memory_format or torch.preserve_format)
        _native.copy(self, out)
        return out
    if memory_format in (None, torch.preserve_format) or (
        memory_format == torch.contiguous_format and self.is_contiguous()
    ):
        return _run("clone", [self])
    out = torch.empty(self.shape, dtype=self.dtype, device=self.device, memory_format=memory_format)
    _native.copy(self, out)
    return out


_BITS = {torch.uint8: 8, torch.int8: 8, torch.int16: 16, torch.int32: 32}


def _fill(tensor, value):
    if tensor.dtype is torch.bool:
        value = bool(value)
    bits = _BITS.get(tensor.dtype)
    if bits is not None and isinstance(value, int):
        # Narrow integers wrap, as their arithmetic does; one that 32 bits do not hold is refused.
        low = 0 if tensor.dtype is torch.uint8 else -(1 << bits - 1)
        value = (value - low) % (1 << bits) + low
    _written(tensor, value)
    return tensor


def _written(tensor, value: float):
    """Writes one number everywhere, also where several elements are one place."""
    try:
        _native.fill(tensor, value)
    except _native.LayoutError:
        if tensor.numel() < 2:
            raise
        repeated = [n > 1 and s == 0 for n, s in zip(tensor.shape, tensor.stride())]
        if any(repeated):
            # An expanded dimension is one row again and again.
            return _written(tensor[tuple(slice(1 if r else None) for r in repeated)], value)
        shortest = min((d for d in range(tensor.dim()) if tensor.shape[d] > 1), key=lambda d: tensor.shape[d])
        for part in tensor.unbind(shortest):
            _written(part, value)


@_kernel("fill_.Scalar")
def _fill_scalar(self, value):
    return _fill(self, value)


@_kernel("fill_.Tensor")
def _fill_tensor(self, value):
    if value.dim() != 0:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
        )
    return _fill(self, value.item())


@_kernel("zero_")
def _zero(self):
    _written(self, 0.0)
    return self


# Arithmetic.


@_kernel("rsub.Tensor", "rsub.Scalar")
def _rsub(self, other, alpha=1):
    return _run("sub", [other, self], alpha=alpha)


@_kernel("square")
def _square(self):
    # A truth is an integer when it is squared.
    return _run("square", [self.to(torch.int64) if self.dtype is torch.bool else self])


@_kernel("masked_fill.Tensor")
def _masked_fill(self, mask, value):
    return torch.ops.aten.masked_fill.Scalar(self, mask, value.item())


@_kernel("masked_fill_.Tensor")
def _masked_fill_(self, mask, value):
    return torch.ops.aten.masked_fill_.Scalar(self, mask, value.item())


@_kernel("log_sigmoid_forward")
def _log_sigmoid(self):
    # The second result is for a gradient that does not ask for it.
    return _run("log_sigmoid", [self]), self.new_empty(0)


@_kernel("aminmax")
def _aminmax(self, *, dim=None, keepdim=False):
    attributes = {} if dim is None else dict(dim=dim, keepdim=keepdim)
    return _run("amin", [self], **attributes), _run("amax", [self], **attributes)


@_kernel("sort.stable")
def _sort_stable(self, *, stable=None, dim=-1, descending=False):
    if self.is_contiguous():
        return _run("sort", [self], dim=dim, descending=descending)
    out = torch.empty_like(self), torch.empty_like(self, dtype=torch.int64)
    _native.run_into("sort", [self], dict(dim=dim, descending=descending), out)
    return out


@_kernel("sort")
def _sort(self, dim=-1, descending=False):
    return _sort_stable(self, dim=dim, descending=descending)


@_kernel("flip")
def _flip(self, dims):
    return _alike("flip", self, dims=list(dims))


@_kernel("addmv")
def _addmv(self, mat, vec, *, beta=1, alpha=1):
    if not self.dtype.is_floating_point:
        # As on the CPU: integers are scaled by integers.
        beta, alpha = int(beta), int(alpha)
    product = _run("mv", [mat, vec])
    scaled = product if alpha == 1 else product * alpha
    return (scaled if beta == 0 else scaled + (self if beta == 1 else self * beta)).to(self.dtype)


@_kernel("elu")
def _elu(self, alpha=1, scale=1, input_scale=1):
    if scale == 1 and input_scale == 1:
        return _run("elu", [self], alpha=alpha)
    if scale == 1 and input_scale * alpha == 1:
        return _run("celu", [self], alpha=alpha)
    if input_scale == 1 and abs(scale - 1.0507009873554805) < 1e-9:
        return _run("selu", [self])
    return _run("elu", [self * input_scale], alpha=alpha) * scale


@_kernel("elu_")
def _elu_(self, alpha=1, scale=1, input_scale=1):
    return self.copy_(_elu(self, alpha, scale, input_scale))


@_kernel("clamp.Tensor")
def _clamp_tensor(self, min=None, max=None):
    if min is not None and max is not None:
        return _run("clamp_tensor", [self, min, max])
    return _run("maximum", [self, min]) if min is not None else _run("minimum", [self, max])


@_kernel("glu")
def _glu(self, dim=-1):
    value, gate = self.chunk(2, dim)
    return value * torch.sigmoid(gate)


@_kernel("equal")
def _equal(self, other):
    return self.shape == other.shape and bool(_run("all", [_run("eq", [self, other])]).item())


@_kernel("isin.Tensor_Tensor")
def _isin(elements, test_elements, *, assume_unique=False, invert=False):
    found = (elements.unsqueeze(-1) == test_elements.flatten()).any(-1)
    return found.logical_not() if invert else found


@_kernel("trace")
def _trace(self):
    return self.diagonal().sum()


@_kernel("mse_loss")
def _mse_loss(self, target, reduction=1):
    squares = _run("square", [self - target])
    return squares if reduction == 0 else squares.mean() if reduction == 1 else squares.sum()


# Gradients of one operation each.


@_kernel("threshold_backward")
def _threshold_backward(grad_output, self, threshold):
    # Not above the threshold, rather than below: the gradient passes at NaN, as on the CPU.
    return torch.where(self <= threshold, 0.0, grad_output)


@_kernel("sigmoid_backward")
def _sigmoid_backward(grad_output, output):
    return grad_output * (output * (1 - output))


@_kernel("tanh_backward")
def _tanh_backward(grad_output, output):
    return grad_output * (1 - _run("square", [output]))


@_kernel("_softmax_backward_data")
def _softmax_backward(grad_output, output, dim, input_dtype):
    weighted = grad_output * output
    return weighted - output * weighted.sum(dim, keepdim=True)


@_kernel("_log_softmax_backward_data")
def _log_softmax_backward(grad_output, output, dim, input_dtype):
    return grad_output - output.exp() * grad_output.sum(dim, keepdim=True)


# Borders.


def _bordered(name, mode):
    @_kernel(name)
    def pad(self, padding):
        return _run("pad", [self], pad=list(padding), mode=mode)


for _rank in (1, 2, 3):
    _bordered(f"reflection_pad{_rank}d", "reflect")
    _bordered(f"replication_pad{_rank}d", "replicate")


# Elements by index.


@_kernel("cat")
def _cat(tensors, dim=0):
    # Empty tensors of one dimension are left out, whatever the others are.
    kept = [t for t in tensors if t.dim() != 1 or t.numel()]
    if not kept:
        return tensors[0].clone()
    if len(kept) == 1 and len(tensors) > 1:
        return kept[0].clone()
    last = torch.channels_last
    if all(t.dim() == 4 and t.is_contiguous(memory_format=last) for t in kept) and not all(t.is_contiguous() for t in kept):
        # Channels that come last everywhere do so in the result.
        return _run("cat", [t.permute(0, 2, 3, 1) for t in kept], dim=(0, 3, 1, 2)[dim]).permute(0, 3, 1, 2)
    return _run("cat", kept, dim=dim)


@_kernel("index_fill_.int_Scalar")
def _index_fill(self, dim, index, value):
    if self.dim() == 0:
        return self.fill_(value) if index.numel() else self
    dim = dim % self.dim()
    return _index_put_(self, [None] * dim + [index], self.new_full((), value))


@_kernel("index_fill_.int_Tensor")
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
    """The dimensions of the index, which lead, moved behind `at` others."""
    if at == 0:
        return result
    order = list(range(rank, rank + at)) + list(range(rank)) + list(range(rank + at, result.dim()))
    return result.permute(order)


def within(self, indices):
    """Indices that nobody checked, brought into the tensor where coordinates are computed in 16 bits."""
    if _native.keeps(torch.float32):
        return indices
    at = [i if i is None or i.dtype in (torch.bool, torch.uint8) else i.clamp(-n, n - 1) for i, n in zip(indices, self.shape)]
    return at


@_kernel("_unsafe_index.Tensor")
def _unsafe_index_tensor(self, indices):
    return _index_tensor(self, within(self, indices))


@_kernel("index.Tensor")
def _index_tensor(self, indices):
    indices = _expanded(indices, self)
    if all(i is None for i in indices):
        return self.clone()
    front, used, at = _front(self, indices)
    used = torch.broadcast_tensors(*used)
    return _placed(_run("index", [front, *used]), at, used[0].dim())


def _wrapped(tensor):
    """Sums of bytes and of truths as what their dtype holds: the card adds them in wider words."""
    if tensor.dtype is torch.uint8:
        tensor.copy_(tensor.to(torch.int32).to(torch.uint8))
    elif tensor.dtype is torch.bool:
        tensor.copy_(tensor.to(torch.int32) != 0)
    return tensor


@_kernel("index_put")
def _index_put(self, indices, values, accumulate=False):
    return _index_put_(self.clone(), indices, values, accumulate)


@_kernel("index_put_", "_index_put_impl_")
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
            _wrapped(front)
    return self


@_kernel("scatter.value")
def _scatter_value(self, dim, index, value):
    return _run("scatter", [self, index, self.new_full(index.shape, value)], dim=dim)


@_kernel("scatter_.value")
def _scatter_value_(self, dim, index, value):
    return _into("scatter", [self, index, self.new_full(index.shape, value)], self, dim=dim)


# Random numbers.


def _drawn(out, op, generator, draw, **attributes):
    """Fills a tensor with random numbers of the card, or of a generator of the CPU."""
    if out.numel() == 0:
        return out
    if generator is not None:
        return out.copy_(draw(torch.empty(out.shape, dtype=out.dtype)))
    seed = random.draw(out.device.index)
    made = _made_like(out)
    if not out.dtype.is_floating_point and op != "randint":
        made["dtype"] = torch.float32
    return _into(op, [], out, size=list(out.shape), seed=seed, **attributes, **made)


@_kernel("uniform_")
def _uniform(self, low=0.0, high=1.0, *, generator=None, **kw):
    low = kw.get("from", low)
    high = kw.get("to", high)
    return _drawn(self, "uniform", generator, lambda t: t.uniform_(low, high, generator=generator), low=low, high=high)


@_kernel("normal_")
def _normal(self, mean=0.0, std=1.0, *, generator=None):
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return _drawn(self, "normal", generator, lambda t: t.normal_(mean, std, generator=generator), mean=mean, std=std)


# One past the largest number that `random_` draws, where nobody says.
_TOP = {torch.float16: 1 << 11, torch.bfloat16: 1 << 8, torch.float32: 1 << 24, torch.bool: 2,
        torch.int8: 1 << 7, torch.uint8: 1 << 8, torch.int16: 1 << 15, torch.int32: (1 << 31) - 1}


@_kernel("random_.from")
def _random_from(self, low, high=None, *, generator=None):
    high = _TOP.get(self.dtype, (1 << 63) - 1) if high is None else high
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return _drawn(self, "randint", generator, lambda t: t.random_(low, high, generator=generator), low=low, high=high)


@_kernel("random_.to")
def _random_to(self, high, *, generator=None):
    return _random_from(self, 0, high, generator=generator)


@_kernel("random_")
def _random(self, *, generator=None):
    return _random_from(self, 0, generator=generator)


@_kernel("bernoulli_.float")
def _bernoulli_float(self, p=0.5, *, generator=None):
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if generator is not None:
        return self.copy_(torch.empty(self.shape, dtype=self.dtype).bernoulli_(p, generator=generator))
    if self.numel() == 0:
        return self
    attributes = dict(size=list(self.shape), p=1 - p, seed=random.draw(self.device.index), device=self.device.index)
    return _into("dropout_mask", [], self, **attributes)


@_kernel("bernoulli")
def _bernoulli(self, *, generator=None):
    if generator is not None:
        return torch.bernoulli(self.cpu(), generator=generator).to(self.device)
    if self.numel() and not ((self >= 0) & (self <= 1)).all():
        raise RuntimeError("bernoulli expects all probabilities to be in [0, 1]")
    return _run("bernoulli", [self], seed=random.draw(self.device.index))


@_kernel("bernoulli_.Tensor")
def _bernoulli_tensor(self, p, *, generator=None):
    return self.copy_(_bernoulli(p.to(self.device).expand(self.shape), generator=generator))


@_kernel("native_dropout")
def _native_dropout(input, p, train):
    if train is False or p == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    seed = random.draw(input.device.index)
    mask = _run("dropout_mask", [], size=list(input.shape), p=p, seed=seed, device=input.device.index)
    return _alike("dropout", input, p=p, seed=seed), mask


# Norms.


def _moments(input, dims, eps):
    var, mean = _run("var_mean", [input], dim=dims, correction=0, keepdim=True)
    return mean, torch.rsqrt(var + eps)


@_kernel("native_layer_norm")
def _native_layer_norm(input, normalized_shape, weight, bias, eps):
    shape = list(normalized_shape)
    dims = list(range(input.dim() - len(shape), input.dim()))
    out = _layer_norm(input, shape, weight, bias, eps)
    return (out, *_moments(input, dims, eps))


def _layer_norm(input, shape, weight, bias, eps):
    if weight is None and bias is not None:
        weight = torch.ones(shape, dtype=input.dtype, device=input.device)
    return _run("layer_norm", [input, weight, bias], normalized_shape=shape, eps=eps)


@_kernel("native_group_norm")
def _native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    if weight is None and bias is not None:
        weight = torch.ones(C, dtype=input.dtype, device=input.device)
    out = _run("group_norm", [input, weight, bias], num_groups=group, eps=eps)
    mean, rstd = _moments(input.reshape(N, group, -1), [2], eps)
    return out, mean.reshape(N, group), rstd.reshape(N, group)


@_kernel("native_batch_norm", "_native_batch_norm_legit")
def _native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    if weight is None and bias is not None:
        weight = torch.ones_like(bias)
    if not training:
        out = _run("batch_norm", [input, running_mean, running_var, weight, bias], eps=eps)
        return out, input.new_empty(0), input.new_empty(0)
    dims = [d for d in range(input.dim()) if d != 1]
    var, mean = _run("var_mean", [input], dim=dims, correction=0, keepdim=False)
    if running_mean is not None:
        count = input.numel() // input.shape[1]
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        running_var.mul_(1 - momentum).add_(var, alpha=momentum * count / max(count - 1, 1))
    out = _run("batch_norm", [input, mean, var, weight, bias], eps=eps)
    return out, mean, torch.rsqrt(var + eps)


@_kernel("_native_batch_norm_legit_no_training")
def _batch_norm_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    return _native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


# Convolutions.


@_kernel("convolution_overrideable")
def _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = input.dim() - 2
    if transposed:
        made = convolutions.convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)
        if made is not NotImplemented:
            return made
    if transposed or rank not in (1, 2):
        return boxed(torch.ops.aten.convolution.default, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    attributes = dict(stride=list(stride), padding=list(padding), dilation=list(dilation), groups=groups)
    try:
        return _run(f"conv{rank}d", [input, weight, bias], **attributes)
    except _native.DeviceError as refusal:
        args = (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        return by_name("convolution", str(refusal), args, None)


@_kernel("convolution_backward_overrideable")
def _convolution_backward(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask):
    given = (stride, padding, dilation, transposed, output_padding, groups, output_mask)
    made = convolutions.convolution_backward(grad, input, weight, None, *given)
    if made is not NotImplemented:
        return made
    return boxed(torch.ops.aten.convolution_backward.default, grad, input, weight, [weight.shape[0]], stride, padding, dilation, transposed, output_padding, groups, output_mask)


# Where a refusal of the card is the last word: memory, and what has no meaning on the CPU.
_FINAL = {
    "empty.memory_format", "empty_strided", "resize_", "set_", "set_.source_Tensor", "set_.source_Storage",
    "set_.source_Storage_storage_offset", "_copy_from", "_copy_from_and_resize", "_to_copy", "clone",
    "convolution_overrideable", "convolution_backward_overrideable",
}


# Rows of the table that add or multiply elements where they lie.
_ACCUMULATING = {
    "scatter_add", "scatter_add_", "scatter_add.out", "scatter_reduce.two", "scatter_reduce_.two",
    "scatter_reduce.two_out", "index_add", "index_add_", "index_add.out",
}


def _accumulated(kernel):
    return lambda *args, **kwargs: _wrapped(kernel(*args, **kwargs))


def _divided(kernel):
    def divide(self, other):
        # A number that the integers may not hold: the quotient is a float, and so is the number.
        return kernel(self, float(other) if isinstance(other, int) else other)

    return divide


def _of_bytes(kernel):
    def divide(self, other):
        if isinstance(other, int) and getattr(self, "dtype", None) is torch.uint8:
            other %= 256
        elif isinstance(self, int) and getattr(other, "dtype", None) is torch.uint8:
            self %= 256
        return kernel(self, other)

    return divide


def _clamped(kernel):
    def clamp(self, *bounds, **kwargs):
        if not self.dtype.is_floating_point:
            for bound in (*bounds, *kwargs.values()):
                if bound is not None:
                    # Numbers of another kind change the kind of the result.
                    self = self.to(torch.result_type(self, bound))
        return kernel(self, *bounds, **kwargs)

    return clamp


# Rows of the table with something around them.
_AROUND = {
    **{name: _accumulated for name in _ACCUMULATING},
    **{name: _of_bytes for name in ("floor_divide", "remainder.Scalar", "remainder.Scalar_Tensor", "fmod.Scalar")},
    "div.Tensor": _divided, "clamp": _clamped, "clamp_min": _clamped, "clamp_max": _clamped,
}


def _refusable(name, function):
    """A kernel that asks the CPU where the card refuses."""

    def kernel(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except _native.DeviceError as refusal:
            return by_name(name, str(refusal), args, kwargs)

    return torch._disable_dynamo(kernel)


def install() -> None:
    """Registers every kernel."""
    for name, kernel in _native.kernels():
        if name not in _OWN:
            register(name, torch._disable_dynamo(_AROUND[name](kernel)) if name in _AROUND else kernel)
    for name, function in _OWN.items():
        if name not in _FINAL and not isinstance(function, type(_native.view)):
            function = _refusable(name, function)
        register(name, function)
    register("_copy_from", _copy_from_lazy, "Negative", "Conjugate")
