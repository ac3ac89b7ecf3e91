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
def _view(writer, node, operand, *_):
    return writer.op("reshape", [operand], size=writer.shape_of(node))


@_rule(aten.alias.default, aten.detach.default, aten.lift_fresh.default, aten.lift_fresh_copy.default)
def _alias(writer, node, operand):
    return operand


@_rule(aten.permute.default)
def _permute(writer, node, operand, dims):
    return writer.op("permute", [operand], dims=dims)


@_rule(aten.transpose.int)
def _transpose(writer, node, operand, dim0, dim1):
    return writer.op("transpose", [operand], dim0=dim0, dim1=dim1)


@_rule(aten.t.default)
def _t(writer, node, operand):
    return writer.op("t", [operand]) if len(writer.shape_of(node)) == 2 else operand


@_rule(aten.expand.default)
def _expand(writer, node, operand, *_, **__):
    return writer.op("expand", [operand], size=writer.shape_of(node))


@_rule(aten.slice.Tensor)
def _slice(writer, node, operand, dim=0, start=None, end=None, step=1):
    size = writer.shape_of(node.args[0])[dim]
    # Bounds past the ends are accepted as in Python: they count from the end where negative, and are clamped.
    start = 0 if start is None else max(start + size if start < 0 else start, 0)
    end = size if end is None else min(end + size if end < 0 else end, size)
    return writer.op("slice", [operand], dim=dim, start=min(start, size), end=max(end, min(start, size)), step=step)


@_rule(aten.select.int)
def _select(writer, node, operand, dim, index):
    return writer.op("select", [operand], dim=dim, index=index)


@_rule(aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default)
def _squeeze(writer, node, operand, *_):
    return writer.op("reshape", [operand], size=writer.shape_of(node))


@_rule(aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int)
def _split(writer, node, operand, parts=None, dim=0):
    size = writer.shape_of(node.args[0])
    if node.target is aten.unbind.int:
        dim = (parts or 0) % len(size)
        return [writer.op("select", [operand], [f"{node.name}.{i}"], dim=dim, index=i) for i in range(size[dim])]
    dim = dim % len(size)
    # PyTorch splits a dimension without elements into one part without elements.
    parts = parts if isinstance(parts, list) else [parts] * max(1, math.ceil(size[dim] / parts))
    out, start = [], 0
    for i, part in enumerate(parts):
        end = min(start + part, size[dim])
        out.append(writer.op("slice", [operand], [f"{node.name}.{i}"], dim=dim, start=start, end=end, step=1))
        start = end
    return out


@_rule(operator.getitem)
def _getitem(writer, node, operand, index):
    if not isinstance(operand, list):
        raise Refused("getitem of a node that has one result")
    if operand[index] is None:
        raise Refused("the card does not compute this result")
    return operand[index]


@_rule(aten._to_copy.default, torch.ops.prims.convert_element_type.default)
def _cast(writer, node, operand, dtype=None, **kwargs):
    if kwargs.get("device") is not None and torch.device(kwargs["device"]).type != "spyre":
        raise Refused("the copy goes to another device")
    if dtype is None:
        return writer.op("clone", [operand])
    return writer.op("cast", [operand], dtype=dtype, wide=_native.keeps(dtype))


@_rule(aten.clone.default)
def _clone(writer, node, operand, **_):
    return writer.op("clone", [operand])


@_rule(aten.cat.default)
def _cat(writer, node, tensors, dim=0):
    # PyTorch lets an empty tensor of one dimension take part in a `cat` of any rank, and ignores it.
    kept = [t for t, given in zip(tensors, node.args[0]) if writer.shape_of(given) != [0]]
    return kept[0] if len(kept) == 1 else writer.op("cat", kept, dim=dim)


@_rule(aten.rsub.Scalar, aten.rsub.Tensor)
def _rsub(writer, node, operand, other, alpha=1):
    return writer.op("sub", [other, operand], alpha=alpha)


def _filling(writer, node, source, like, dtype, size):
    """A tensor with the dtype and the size of what it is written into; PyTorch converts and broadcasts here, the kernels do not."""
    if not isinstance(source, str):
        raise Refused("the source is a number, and a tensor is needed")
    if like.meta["val"].dtype != dtype:
        source = writer.op("cast", [source], [node.name + ".cast"], dtype=writer.value(dtype), wide=_native.keeps(dtype))
    if writer.shape_of(like) != size:
        source = writer.op("expand", [source], [node.name + ".wide"], size=size)
    return source


@_rule(aten.copy.default)
def _copy(writer, node, operand, source, *_):
    source = _filling(writer, node, source, node.args[1], node.meta["val"].dtype, writer.shape_of(node))
    return writer.op("clone", [source])


@_rule(aten.select_scatter.default)
def _select_scatter(writer, node, operand, source, dim, index):
    size = writer.shape_of(node)
    dim, index = dim % len(size), index % size[dim]
    size[dim] = 1
    part = writer.op("reshape", [source], [node.name + ".part"], size=size)
    return writer.op("slice_scatter", [operand, part], dim=dim, start=index, end=index + 1, step=1)


@_rule(aten.index_put.default)
def _index_put(writer, node, operand, indices, values, accumulate=False):
    dims = [d for d, i in enumerate(indices) if i is not None]
    (at,) = [node.args[1][d] for d in dims] if len(dims) == 1 else [None]
    if at is None or accumulate or at.meta["val"].dtype == torch.bool or at.meta["val"].dim() != 1:
        return _put_anywhere(writer, node, operand, indices, values, accumulate)
    size = writer.shape_of(node)
    size[dims[0]] = writer.shape_of(at)[0]
    values = _filling(writer, node, values, node.args[2], node.meta["val"].dtype, size)
    return writer.op("index_copy", [operand, indices[dims[0]], values], dim=dims[0])


def _fronted(writer, node, operand, indices):
    """A tensor with its indexed dimensions first, the indices, the order that brings a result of the
    index back, and the order that brought the tensor there."""
    source, rank = node.args[0], len(writer.shape_of(node.args[0]))
    if any(i is not None and a.meta["val"].dtype in (torch.bool, torch.uint8) for i, a in zip(indices, node.args[1])):
        raise Refused("the index is boolean, so the number of elements depends on their values")
    used = [d for d, i in enumerate(indices) if i is not None]
    if not used or source.meta["val"].dim() != rank:
        raise Refused("no dimension is indexed")
    order = used + [d for d in range(rank) if d not in used]
    inner = max(a.meta["val"].dim() for a in node.args[1] if a is not None)
    # NumPy's rule: dimensions of the index stay where the indexed ones were if those are neighbours, else they come first.
    at = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    behind = list(range(inner, inner + at)) + list(range(inner)) + list(range(inner + at, inner + rank - len(used)))
    front = operand if order == list(range(rank)) else writer.op("permute", [operand], [node.name + ".front"], dims=order)
    return front, [indices[d] for d in used], behind, order


@_rule(aten.index.Tensor)
def _index(writer, node, operand, indices):
    front, used, behind, _ = _fronted(writer, node, operand, indices)
    if behind == sorted(behind):
        return writer.op("index", [front, *used])
    return writer.op("permute", [writer.op("index", [front, *used], [node.name + ".found"])], dims=behind)


def _put_anywhere(writer, node, operand, indices, values, accumulate):
    """index_put with several indices, or with one of any rank."""
    front, used, behind, order = _fronted(writer, node, operand, indices)
    # The values have the shape of the indexed elements: the dimensions of the index take the place of the indexed ones.
    target, shapes = writer.shape_of(node), [writer.shape_of(a) for a in node.args[1] if a is not None]
    inner, rest = list(torch.broadcast_shapes(*shapes)), [target[d] for d in order[len(used) :]]
    at = behind.index(0)
    whole = rest[:at] + inner + rest[at:]
    values = _filling(writer, node, values, node.args[2], node.meta["val"].dtype, whole)
    if behind != sorted(behind):
        values = writer.op("permute", [values], [node.name + ".turned"], dims=[behind.index(d) for d in range(len(behind))])
    if front is operand:
        return writer.op("index_put", [front, *used, values], accumulate=accumulate)
    done = writer.op("index_put", [front, *used, values], [node.name + ".done"], accumulate=accumulate)
    return writer.op("permute", [done], dims=[order.index(d) for d in range(len(order))])


@_rule(aten.native_layer_norm.default)
def _layer_norm(writer, node, operand, shape, weight, bias, eps):
    if weight is None and bias is not None:
        raise Refused("a norm with a bias needs a weight too")
    out = writer.op("layer_norm", [v for v in (operand, weight, bias) if v is not None], normalized_shape=shape, eps=eps)
    return [out, None, None]


@_rule(aten.native_group_norm.default)
def _group_norm(writer, node, operand, weight, bias, batch, channels, plane, groups, eps):
    if weight is None and bias is not None:
        raise Refused("a norm with a bias needs a weight too")
    read = {u.args[1] for u in node.users if u.target is operator.getitem}
    out = writer.op("group_norm", [v for v in (operand, weight, bias) if v is not None], [node.name + ".0"], num_groups=groups, eps=eps)
    # Mean and inverse deviation cost a pass over the tensor, so they are computed only where somebody reads them.
    if not read & {1, 2}:
        return [out, None, None]
    size = writer.shape_of(node.args[0])
    rows = writer.op("reshape", [operand], [node.name + ".rows"], size=[size[0], groups, math.prod(size[1:]) // groups])
    var, mean = writer.op("var_mean", [rows], [node.name + ".var", node.name + ".1"], dim=[2], correction=0, keepdim=False)
    beyond = writer.op("add", [var, float(eps)], [node.name + ".beyond"])
    return [out, mean, writer.op("rsqrt", [beyond], [node.name + ".2"])]


@_rule(aten.convolution.default)
def _convolution(writer, node, operand, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = len(writer.shape_of(node.args[0])) - 2
    if transposed or rank not in (1, 2):
        raise Refused("the convolution is transposed, or has more than two spatial dimensions")
    operands = [v for v in (operand, weight, bias) if v is not None]
    return writer.op(f"conv{rank}d", operands, stride=stride, padding=padding, dilation=dilation, groups=groups)


@_rule(aten.max_pool2d_with_indices.default)
def _max_pool(writer, node, operand, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    attributes = dict(kernel_size=kernel, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    return [writer.op("max_pool2d", [operand], stride=stride or None, **attributes), None]


@_rule(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(writer, node, operand, weight, bias, mean, var, momentum, eps):
    if weight is None and bias is not None:
        raise Refused("a norm with a bias needs a weight too")
    out = writer.op("batch_norm", [v for v in (operand, mean, var, weight, bias) if v is not None], eps=eps)
    return [out, None, None]


def _made(kwargs, node):
    dtype = node.meta["val"].dtype
    return dict(dtype=str(dtype).removeprefix("torch."), wide=_native.keeps(dtype))


@_rule(aten.full.default, aten.full_like.default, aten.scalar_tensor.default)
def _full(writer, node, first, value=None, **kwargs):
    value = first if node.target is aten.scalar_tensor.default else value
    if not isinstance(value, (int, float, bool)):
        raise Refused("the fill value is a tensor")
    return writer.op("full", [], size=writer.shape_of(node), value=int(value) if isinstance(value, bool) else value, **_made(kwargs, node))


@_rule(aten.zeros.default, aten.zeros_like.default)
def _zeros(writer, node, *_, **kwargs):
    return writer.op("zeros", [], size=writer.shape_of(node), **_made(kwargs, node))


@_rule(aten.ones.default, aten.ones_like.default)
def _ones(writer, node, *_, **kwargs):
    return writer.op("ones", [], size=writer.shape_of(node), **_made(kwargs, node))


@_rule(aten.arange.default, aten.arange.start, aten.arange.start_step)
def _arange(writer, node, *bounds, **kwargs):
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if not node.meta["val"].dtype.is_floating_point:
        # The number of elements comes from the bounds as they are, the elements from whole ones.
        start, step = int(start), int(step)
        end = start + step * writer.shape_of(node)[0]
    return writer.op("arange", [], start=start, end=end, step=step, **_made(kwargs, node))


@functools.cache
def rules() -> dict:
    """The rules by operator. Those of the device's own operators are added at the first call, because the
    operators exist only after the device is registered."""
    _rules_of_own_operators()
    return _RULES


def _rules_of_own_operators() -> None:
    ops = torch.ops.spyre

    @_rule(ops.linear.default)
    def _linear(writer, node, operand, weight, bias=None):
        return writer.op("linear", [v for v in (operand, weight, bias) if v is not None])

    @_rule(ops.matmul.default)
    def _matmul(writer, node, left, right):
        return writer.op("matmul", [left, right])

    @_rule(ops.sdpa.default)
    def _sdpa(writer, node, query, key, value, mask=None, is_causal=False, scale=None, enable_gqa=False):
        operands = [t for t in (query, key, value, mask) if t is not None]
        return writer.op("scaled_dot_product_attention", operands, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)

    @_rule(ops.rms_norm.default)
    def _rms_norm(writer, node, operand, shape, weight=None, eps=None):
        eps = torch.finfo(node.meta["val"].dtype).eps if eps is None else eps
        return writer.op("rms_norm", [v for v in (operand, weight) if v is not None], normalized_shape=shape, eps=eps)

    @_rule(ops.layer_norm.default)
    def _whole_layer_norm(writer, node, operand, shape, weight=None, bias=None, eps=1e-5):
        return _layer_norm(writer, node, operand, shape, weight, bias, eps)[0]

    @_rule(ops.restickify.default)
    def _restickify(writer, node, operand, dim):
        rank = len(writer.shape_of(node))
        return writer.pinned(node.args[0], operand, pin={"stick": dim % rank} if rank else None)

    @_rule(ops.to_layout.default)
    def _to_layout(writer, node, operand, layout):
        return writer.pinned(node.args[0], operand, pin={"layout": layout})

    @_rule(ops.place.default)
    def _place(writer, node, operand, space):
        return writer.pinned(node.args[0], operand, place=space)

    @_rule(ops.full_with_layout.default)
    def _full_with_layout(writer, node, size, value, layout, stride, dtype, device):
        if not node.meta["val"].is_contiguous():
            raise Refused("a layout of a tensor with strides that are not row-major ones")
        value = int(value) if isinstance(value, bool) else value
        return writer.op("full", [], pin={"layout": layout}, size=writer.shape_of(node), value=value, **_made({}, node))

    @_rule(ops.constant.default)
    def _constant(writer, node, value, dtype, device):
        return writer.op("full", [], size=[], value=value, **_made({}, node))

    @_rule(ops.gelu.default)
    def _gelu(writer, node, operand, approximate="none"):
        return writer.op("gelu", [operand], approximate=approximate)
