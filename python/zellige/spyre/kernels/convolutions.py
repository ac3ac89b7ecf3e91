"""Convolutions, their gradients, and pools that say where their values were.

Transposed convolutions, gradients and pools are written by operators that the card has, in one and two dimensions;
the compiler takes them apart the same way. What is left, which are convolutions of three dimensions, runs on the CPU.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ... import _native
from ..fallback import boxed, by_name
from .registration import kernel, run

# The largest window, in elements, whose positions are compared one by one.
_WINDOW = 128


def _list(value, rank: int) -> list[int]:
    """A number for each dimension."""
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * rank if len(value) == 1 else value


def _plane(tensor):
    """A tensor of one spatial dimension as one of two."""
    return tensor if tensor is None else tensor.unsqueeze(2)


def _pad(x, sides):
    """Zeros around the last two dimensions, or less of them where a side is negative."""
    top, bottom, left, right = sides
    height, width = x.shape[-2:]
    x = x[..., max(-top, 0) : height - max(-bottom, 0), max(-left, 0) : width - max(-right, 0)]
    return F.pad(x, [max(left, 0), max(right, 0), max(top, 0), max(bottom, 0)])


def _spread(x, stride):
    """Zeros between the elements of the last two dimensions."""
    n, c, height, width = x.shape
    down, across = stride
    if (down, across) == (1, 1):
        return x
    x = F.pad(x.reshape(n, c, height, 1, width, 1), [0, across - 1, 0, 0, 0, down - 1])
    x = x.reshape(n, c, height * down, width * across)
    return x[:, :, : (height - 1) * down + 1, : (width - 1) * across + 1]


def _turned(weight, groups):
    """The kernel for a transposed convolution that is done as a plain one: mirrored, inputs and outputs exchanged."""
    inputs, outputs, height, width = weight.shape
    weight = weight.reshape(groups, inputs // groups, outputs, height, width).transpose(1, 2)
    return weight.reshape(groups * outputs, inputs // groups, height, width).flip([-2, -1])


def transposed(input, weight, stride, padding, dilation, output_padding, groups):
    """A transposed convolution in two dimensions, as a convolution of the input with zeros between its elements."""
    reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[-2:])]
    sides = [(r - p, r - p + o) for r, p, o in zip(reach, padding, output_padding)]
    x = _pad(_spread(input, stride), [n for side in sides for n in side])
    return F.conv2d(x, _turned(weight, groups), None, 1, 0, dilation, groups)


def _kernel_gradient(grad, input, size, stride, padding, dilation, groups):
    """The gradient of a convolution's kernel: the convolution of the input with the gradient of the result."""
    n, channels = input.shape[:2]
    inner, outer = channels // groups, grad.shape[1] // groups
    # The sum runs over the batch, so batch and channels change places; groups stay groups.
    x = input.reshape(n, groups, inner, *input.shape[2:]).permute(2, 1, 0, 3, 4).reshape(inner, groups * n, *input.shape[2:])
    g = grad.reshape(n, groups, outer, *grad.shape[2:]).permute(1, 2, 0, 3, 4).reshape(groups * outer, n, *grad.shape[2:])
    found = F.conv2d(x, g, None, dilation, padding, stride, groups)
    return found[:, :, : size[0], : size[1]].transpose(0, 1)


def convolution(input, weight, bias, stride, padding, dilation, is_transposed, output_padding, groups):
    """A transposed convolution; NotImplemented for any other."""
    rank = weight.dim() - 2
    if not is_transposed or rank not in (1, 2) or input.dim() != rank + 2 or not _computable(input, weight):
        return NotImplemented
    given = [_list(v, rank) for v in (stride, padding, dilation, output_padding)]
    if rank == 1:
        given = [[fill, *v] for fill, v in zip((1, 0, 1, 0), given)]
        out = transposed(_plane(input), _plane(weight), *given, groups).squeeze(2)
    else:
        out = transposed(input, weight, *given, groups)
    return out if bias is None else out + bias.view(-1, *[1] * rank)


def _computable(*tensors) -> bool:
    return all(t.is_floating_point() and t.numel() for t in tensors)


def convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, is_transposed, output_padding, groups, wanted):
    """The gradients of input, kernel and bias; NotImplemented in three dimensions."""
    rank = weight.dim() - 2
    if rank not in (1, 2) or not _computable(grad, input, weight):
        return NotImplemented
    given = [_list(v, rank) for v in (stride, padding, dilation, output_padding)]
    bias = grad.sum([0, *range(2, grad.dim())]) if wanted[2] else None
    if rank == 1:
        grad, input, weight = _plane(grad), _plane(input), _plane(weight)
        given = [[fill, *v] for fill, v in zip((1, 0, 1, 0), given)]
    stride, padding, dilation, output_padding = given
    size = weight.shape[-2:]
    of_input = of_weight = None
    if is_transposed:
        if wanted[0]:
            # Output padding may be as wide as a stride, which gives one more element than the input has.
            of_input = F.conv2d(grad, weight, None, stride, padding, dilation, groups)[:, :, : input.shape[2], : input.shape[3]]
        if wanted[1]:
            of_weight = _kernel_gradient(input, grad, size, stride, padding, dilation, groups)
    else:
        if wanted[0]:
            least = [(g - 1) * s - 2 * p + d * (k - 1) + 1 for g, s, p, d, k in zip(grad.shape[2:], stride, padding, dilation, size)]
            left = [n - m for n, m in zip(input.shape[2:], least)]
            of_input = transposed(grad, weight, stride, padding, dilation, left, groups)
        if wanted[1]:
            of_weight = _kernel_gradient(grad, input, size, stride, padding, dilation, groups)
    if rank == 1:
        of_input, of_weight = (t if t is None else t.squeeze(2) for t in (of_input, of_weight))
    return of_input, of_weight, bias


@kernel("convolution_overrideable")
def _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = input.dim() - 2
    if transposed:
        made = convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)
        if made is not NotImplemented:
            return made
    if transposed or rank not in (1, 2):
        return boxed(torch.ops.aten.convolution.default, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    attributes = dict(stride=list(stride), padding=list(padding), dilation=list(dilation), groups=groups)
    try:
        return run(f"conv{rank}d", [input, weight, bias], **attributes)
    except _native.DeviceError as refusal:
        args = (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        return by_name("convolution", str(refusal), args, None)


@kernel("convolution_backward_overrideable")
def _convolution_backward(grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask):
    given = (stride, padding, dilation, transposed, output_padding, groups, output_mask)
    made = convolution_backward(grad, input, weight, None, *given)
    if made is not NotImplemented:
        return made
    return boxed(torch.ops.aten.convolution_backward.default, grad, input, weight, [weight.shape[0]], stride, padding, dilation, transposed, output_padding, groups, output_mask)


def _windows(input, kernel, stride, padding, dilation, ceil_mode):
    """The window and its step in each dimension, the number of windows, and what is added behind."""
    kernel, padding, dilation = (_list(v, 2) for v in (kernel, padding, dilation))
    stride = _list(stride, 2) if stride not in ([], (), None) else kernel
    counts, behind = [], []
    for n, k, s, p, d in zip(input.shape[-2:], kernel, stride, padding, dilation):
        span = d * (k - 1) + 1
        count = (n + 2 * p - span + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1
        counts.append(count)
        behind.append(max((count - 1) * s + span - n - p, 0))
    return kernel, stride, padding, dilation, counts, behind


def max_pool2d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """The largest elements of windows, and where in their plane they are; NotImplemented for wide windows."""
    kernel, stride, padding, dilation, counts, behind = _windows(self, kernel_size, stride, padding, dilation, ceil_mode)
    if self.dim() not in (3, 4) or kernel[0] * kernel[1] > _WINDOW or not _computable(self) or min(counts) < 1:
        return NotImplemented
    width = self.shape[-1]
    lowest = float("-inf")
    x = F.pad(self, [padding[1], behind[1], padding[0], behind[0]], value=lowest) if any(padding + behind) else self
    ends = [(c - 1) * s + 1 for c, s in zip(counts, stride)]
    places = [(i * dilation[0], j * dilation[1]) for i in range(kernel[0]) for j in range(kernel[1])]
    parts = [x[..., i : i + ends[0] : stride[0], j : j + ends[1] : stride[1]] for i, j in places]
    found, which = torch.stack(parts, 0).max(0)
    # Where a window begins, and where in it the element is.
    at = lambda n, s, p: torch.arange(n, device=self.device) * s - p
    down = (which // kernel[1]) * dilation[0] + at(counts[0], stride[0], padding[0]).view(-1, 1)
    across = (which % kernel[1]) * dilation[1] + at(counts[1], stride[1], padding[1])
    return found, down * width + across


def max_pool2d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """Adds each gradient at the position that its maximum came from."""
    if not _computable(grad_output, self):
        return NotImplemented
    planes, size = grad_output.numel() // (grad_output.shape[-1] * grad_output.shape[-2]), self.shape[-1] * self.shape[-2]
    made = torch.zeros((planes, size), dtype=grad_output.dtype, device=grad_output.device)
    made = made.scatter_add(1, indices.reshape(planes, -1), grad_output.reshape(planes, -1))
    return made.view(self.shape)
