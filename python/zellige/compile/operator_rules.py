"""Operators of PyTorch whose arguments are not those of an operation of the compiler: a rule writes each.

A rule gets the writer, the node, and its arguments with names in the place of tensors. It gives the name of the
result, or a list of them. All other operators are rows of the table of kernels.
"""

from __future__ import annotations

import functools
import math
import operator

import torch

from .. import _native
from .graph_writer import Refused

aten = torch.ops.aten

_RULES: dict = {}


def _rule(*targets):
    def register(function):
        for target in targets:
            _RULES[target] = function
        return function

    return register


@_rule(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.flatten.using_ints)
def _view(w, n, x, *_):
    return w.op("reshape", [x], size=w.shape_of(n))


@_rule(aten.alias.default, aten.detach.default, aten.lift_fresh.default, aten.lift_fresh_copy.default)
def _alias(w, n, x):
    return x


@_rule(aten.permute.default)
def _permute(w, n, x, dims):
    return w.op("permute", [x], dims=dims)


@_rule(aten.transpose.int)
def _transpose(w, n, x, a, b):
    return w.op("transpose", [x], dim0=a, dim1=b)


@_rule(aten.t.default)
def _t(w, n, x):
    return w.op("t", [x]) if len(w.shape_of(n)) == 2 else x


@_rule(aten.expand.default)
def _expand(w, n, x, *_, **__):
    return w.op("expand", [x], size=w.shape_of(n))


@_rule(aten.slice.Tensor)
def _slice(w, n, x, dim=0, start=None, end=None, step=1):
    size = w.shape_of(n.args[0])[dim]
    start = 0 if start is None else max(start + size if start < 0 else start, 0)
    end = size if end is None else min(end + size if end < 0 else end, size)
    return w.op("slice", [x], dim=dim, start=min(start, size), end=max(end, min(start, size)), step=step)


@_rule(aten.select.int)
def _select(w, n, x, dim, index):
    return w.op("select", [x], dim=dim, index=index)


@_rule(aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default)
def _squeeze(w, n, x, *_):
    return w.op("reshape", [x], size=w.shape_of(n))


@_rule(aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int)
def _split(w, n, x, parts=None, dim=0):
    size = w.shape_of(n.args[0])
    if n.target is aten.unbind.int:
        dim = (parts or 0) % len(size)
        return [w.op("select", [x], [f"{n.name}.{i}"], dim=dim, index=i) for i in range(size[dim])]
    dim = dim % len(size)
    # PyTorch splits a dimension without elements into one part without elements.
    parts = parts if isinstance(parts, list) else [parts] * max(1, math.ceil(size[dim] / parts))
    out, start = [], 0
    for i, part in enumerate(parts):
        end = min(start + part, size[dim])
        out.append(w.op("slice", [x], [f"{n.name}.{i}"], dim=dim, start=start, end=end, step=1))
        start = end
    return out


@_rule(operator.getitem)
def _getitem(w, n, x, index):
    if not isinstance(x, list):
        raise Refused("getitem of a node that has one result")
    if x[index] is None:
        raise Refused("the card does not compute this result")
    return x[index]


@_rule(aten._to_copy.default, torch.ops.prims.convert_element_type.default)
def _cast(w, n, x, dtype=None, **kwargs):
    if kwargs.get("device") is not None and torch.device(kwargs["device"]).type != "spyre":
        raise Refused("the copy goes to another device")
    if dtype is None:
        return w.op("clone", [x])
    return w.op("cast", [x], dtype=dtype, wide=_native.keeps(dtype))


@_rule(aten.clone.default)
def _clone(w, n, x, **_):
    return w.op("clone", [x])


@_rule(aten.cat.default)
def _cat(w, n, tensors, dim=0):
    kept = [t for t, node in zip(tensors, n.args[0]) if w.shape_of(node) != [0]]
    return kept[0] if len(kept) == 1 else w.op("cat", kept, dim=dim)


@_rule(aten.rsub.Scalar, aten.rsub.Tensor)
def _rsub(w, n, x, other, alpha=1):
    return w.op("sub", [other, x], alpha=alpha)


def _filling(w, n, source, like, dtype, size):
    """A tensor, or a number, with the dtype and the size of what it is written into."""
    if not isinstance(source, str):
        raise Refused("the source is a number, and a tensor is needed")
    if like.meta["val"].dtype != dtype:
        source = w.op("cast", [source], [n.name + ".cast"], dtype=w.value(dtype), wide=_native.keeps(dtype))
    if w.shape_of(like) != size:
        source = w.op("expand", [source], [n.name + ".wide"], size=size)
    return source


@_rule(aten.copy.default)
def _copy(w, n, x, source, *_):
    source = _filling(w, n, source, n.args[1], n.meta["val"].dtype, w.shape_of(n))
    return w.op("clone", [source])


@_rule(aten.select_scatter.default)
def _select_scatter(w, n, x, source, dim, index):
    size = w.shape_of(n)
    dim, index = dim % len(size), index % size[dim]
    size[dim] = 1
    part = w.op("reshape", [source], [n.name + ".part"], size=size)
    return w.op("slice_scatter", [x, part], dim=dim, start=index, end=index + 1, step=1)


@_rule(aten.index_put.default)
def _index_put(w, n, x, indices, values, accumulate=False):
    dims = [d for d, i in enumerate(indices) if i is not None]
    (at,) = [n.args[1][d] for d in dims] if len(dims) == 1 else [None]
    if at is None or accumulate or at.meta["val"].dtype == torch.bool or at.meta["val"].dim() != 1:
        return _put_anywhere(w, n, x, indices, values, accumulate)
    size = w.shape_of(n)
    size[dims[0]] = w.shape_of(at)[0]
    values = _filling(w, n, values, n.args[2], n.meta["val"].dtype, size)
    return w.op("index_copy", [x, indices[dims[0]], values], dim=dims[0])


def _fronted(w, n, x, indices):
    """A tensor with its indexed dimensions first, the indices, the order that brings a result of the
    index back, and the order that brought the tensor there."""
    source, rank = n.args[0], len(w.shape_of(n.args[0]))
    if any(i is not None and a.meta["val"].dtype in (torch.bool, torch.uint8) for i, a in zip(indices, n.args[1])):
        raise Refused("the index is boolean, so the number of elements depends on their values")
    used = [d for d, i in enumerate(indices) if i is not None]
    if not used or source.meta["val"].dim() != rank:
        raise Refused("no dimension is indexed")
    order = used + [d for d in range(rank) if d not in used]
    inner = max(a.meta["val"].dim() for a in n.args[1] if a is not None)
    at = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    behind = list(range(inner, inner + at)) + list(range(inner)) + list(range(inner + at, inner + rank - len(used)))
    front = x if order == list(range(rank)) else w.op("permute", [x], [n.name + ".front"], dims=order)
    return front, [indices[d] for d in used], behind, order


@_rule(aten.index.Tensor)
def _index(w, n, x, indices):
    front, used, behind, _ = _fronted(w, n, x, indices)
    if behind == sorted(behind):
        return w.op("index", [front, *used])
    return w.op("permute", [w.op("index", [front, *used], [n.name + ".found"])], dims=behind)


def _put_anywhere(w, n, x, indices, values, accumulate):
    """index_put with several indices, or with one of any rank."""
    front, used, behind, order = _fronted(w, n, x, indices)
    # The values have the shape of the indexed elements: the dimensions of the index stand where the indexed ones were.
    target, shapes = w.shape_of(n), [w.shape_of(a) for a in n.args[1] if a is not None]
    inner, rest = list(torch.broadcast_shapes(*shapes)), [target[d] for d in order[len(used) :]]
    at = behind.index(0)
    whole = rest[:at] + inner + rest[at:]
    values = _filling(w, n, values, n.args[2], n.meta["val"].dtype, whole)
    if behind != sorted(behind):
        values = w.op("permute", [values], [n.name + ".turned"], dims=[behind.index(d) for d in range(len(behind))])
    if front is x:
        return w.op("index_put", [front, *used, values], accumulate=accumulate)
    done = w.op("index_put", [front, *used, values], [n.name + ".done"], accumulate=accumulate)
    return w.op("permute", [done], dims=[order.index(d) for d in range(len(order))])


@_rule(aten.native_layer_norm.default)
def _layer_norm(w, n, x, shape, weight, bias, eps):
    if weight is None and bias is not None:
        raise Refused("a norm with a bias needs a weight too")
    out = w.op("layer_norm", [v for v in (x, weight, bias) if v is not None], normalized_shape=shape, eps=eps)
    return [out, None, None]


@_rule(aten.native_group_norm.default)
def _group_norm(w, n, x, weight, bias, batch, channels, plane, groups, eps):
    if weight is None and bias is not None:
        raise Refused("a norm with a bias needs a weight too")
    read = {u.args[1] for u in n.users if u.target is operator.getitem}
    out = w.op("group_norm", [v for v in (x, weight, bias) if v is not None], [n.name + ".0"], num_groups=groups, eps=eps)
    if not read & {1, 2}:
        return [out, None, None]
    size = w.shape_of(n.args[0])
    rows = w.op("reshape", [x], [n.name + ".rows"], size=[size[0], groups, math.prod(size[1:]) // groups])
    var, mean = w.op("var_mean", [rows], [n.name + ".var", n.name + ".1"], dim=[2], correction=0, keepdim=False)
    beyond = w.op("add", [var, float(eps)], [n.name + ".beyond"])
    return [out, mean, w.op("rsqrt", [beyond], [n.name + ".2"])]


@_rule(aten.convolution.default)
def _convolution(w, n, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = len(w.shape_of(n.args[0])) - 2
    if transposed or rank not in (1, 2):
        raise Refused("the convolution is transposed, or has more than two spatial dimensions")
    operands = [v for v in (x, weight, bias) if v is not None]
    return w.op(f"conv{rank}d", operands, stride=stride, padding=padding, dilation=dilation, groups=groups)


@_rule(aten.max_pool2d_with_indices.default)
def _max_pool(w, n, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    attributes = dict(kernel_size=kernel, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    return [w.op("max_pool2d", [x], stride=stride or None, **attributes), None]


@_rule(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(w, n, x, weight, bias, mean, var, momentum, eps):
    if weight is None and bias is not None:
        raise Refused("a norm with a bias needs a weight too")
    out = w.op("batch_norm", [v for v in (x, mean, var, weight, bias) if v is not None], eps=eps)
    return [out, None, None]


def _made(kwargs, n):
    dtype = n.meta["val"].dtype
    return dict(dtype=str(dtype).removeprefix("torch."), wide=_native.keeps(dtype))


@_rule(aten.full.default, aten.full_like.default, aten.scalar_tensor.default)
def _full(w, n, first, value=None, **kwargs):
    value = first if n.target is aten.scalar_tensor.default else value
    if not isinstance(value, (int, float, bool)):
        raise Refused("the fill value is a tensor")
    return w.op("full", [], size=w.shape_of(n), value=int(value) if isinstance(value, bool) else value, **_made(kwargs, n))


@_rule(aten.zeros.default, aten.zeros_like.default)
def _zeros(w, n, *_, **kwargs):
    return w.op("zeros", [], size=w.shape_of(n), **_made(kwargs, n))


@_rule(aten.ones.default, aten.ones_like.default)
def _ones(w, n, *_, **kwargs):
    return w.op("ones", [], size=w.shape_of(n), **_made(kwargs, n))


@_rule(aten.arange.default, aten.arange.start, aten.arange.start_step)
def _arange(w, n, *bounds, **kwargs):
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if not n.meta["val"].dtype.is_floating_point:
        # The number of elements comes from the bounds as they are, the elements from whole ones.
        start, step = int(start), int(step)
        end = start + step * w.shape_of(n)[0]
    return w.op("arange", [], start=start, end=end, step=step, **_made(kwargs, n))


@functools.cache
def rules() -> dict:
    """The rules by operator. Those of the device's own operators are added when they are first asked for, since the
    operators are there only after the device is registered."""
    _rules_of_own_operators()
    return _RULES


def _rules_of_own_operators() -> None:
    ops = torch.ops.spyre

    @_rule(ops.linear.default)
    def _linear(w, n, x, weight, bias=None):
        return w.op("linear", [v for v in (x, weight, bias) if v is not None])

    @_rule(ops.matmul.default)
    def _matmul(w, n, a, b):
        return w.op("matmul", [a, b])

    @_rule(ops.sdpa.default)
    def _sdpa(w, n, q, k, v, mask=None, is_causal=False, scale=None, enable_gqa=False):
        operands = [t for t in (q, k, v, mask) if t is not None]
        return w.op("scaled_dot_product_attention", operands, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)

    @_rule(ops.rms_norm.default)
    def _rms_norm(w, n, x, shape, weight=None, eps=None):
        eps = torch.finfo(n.meta["val"].dtype).eps if eps is None else eps
        return w.op("rms_norm", [v for v in (x, weight) if v is not None], normalized_shape=shape, eps=eps)

    @_rule(ops.layer_norm.default)
    def _whole_layer_norm(w, n, x, shape, weight=None, bias=None, eps=1e-5):
        return _layer_norm(w, n, x, shape, weight, bias, eps)[0]

    @_rule(ops.restickify.default)
    def _restickify(w, n, x, dim):
        rank = len(w.shape_of(n))
        return w.pinned(n.args[0], x, pin={"stick": dim % rank} if rank else None)

    @_rule(ops.to_layout.default)
    def _to_layout(w, n, x, layout):
        return w.pinned(n.args[0], x, pin={"layout": layout})

    @_rule(ops.place.default)
    def _place(w, n, x, space):
        return w.pinned(n.args[0], x, place=space)

    @_rule(ops.full_with_layout.default)
    def _full_with_layout(w, n, size, value, layout, stride, dtype, device):
        if not n.meta["val"].is_contiguous():
            raise Refused("a layout of a tensor with strides that are not row-major ones")
        value = int(value) if isinstance(value, bool) else value
        return w.op("full", [], pin={"layout": layout}, size=w.shape_of(n), value=value, **_made({}, n))

    @_rule(ops.constant.default)
    def _constant(w, n, value, dtype, device):
        return w.op("full", [], size=[], value=value, **_made({}, n))

    @_rule(ops.gelu.default)
    def _gelu(w, n, x, approximate="none"):
        return w.op("gelu", [x], approximate=approximate)
