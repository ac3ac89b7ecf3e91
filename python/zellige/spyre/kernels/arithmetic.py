"""Arithmetic whose arguments are not those of an operation of the card, and gradients of single operations."""

from __future__ import annotations

import torch

from ... import _native
from .registration import kernel, run, run_alike


@kernel("rsub.Tensor", "rsub.Scalar")
def _rsub(self, other, alpha=1):
    return run("sub", [other, self], alpha=alpha)


@kernel("square")
def _square(self):
    # The square of a boolean tensor is an integer tensor.
    return run("square", [self.to(torch.int64) if self.dtype is torch.bool else self])


@kernel("masked_fill.Tensor")
def _masked_fill(self, mask, value):
    return torch.ops.aten.masked_fill.Scalar(self, mask, value.item())


@kernel("masked_fill_.Tensor")
def _masked_fill_(self, mask, value):
    return torch.ops.aten.masked_fill_.Scalar(self, mask, value.item())


@kernel("log_sigmoid_forward")
def _log_sigmoid(self):
    # The second result is a buffer for the gradient on the CPU; the gradient here does not read it.
    return run("log_sigmoid", [self]), self.new_empty(0)


@kernel("aminmax")
def _aminmax(self, *, dim=None, keepdim=False):
    attributes = {} if dim is None else dict(dim=dim, keepdim=keepdim)
    return run("amin", [self], **attributes), run("amax", [self], **attributes)


@kernel("sort.stable")
def _sort_stable(self, *, stable=None, dim=-1, descending=False):
    if self.is_contiguous():
        return run("sort", [self], dim=dim, descending=descending)
    out = torch.empty_like(self), torch.empty_like(self, dtype=torch.int64)
    _native.run_into("sort", [self], dict(dim=dim, descending=descending), out)
    return out


@kernel("sort")
def _sort(self, dim=-1, descending=False):
    return _sort_stable(self, dim=dim, descending=descending)


@kernel("flip")
def _flip(self, dims):
    return run_alike("flip", self, dims=list(dims))


@kernel("addmv")
def _addmv(self, mat, vec, *, beta=1, alpha=1):
    if not self.dtype.is_floating_point:
        # As on the CPU: integers are scaled by integers.
        beta, alpha = int(beta), int(alpha)
    product = run("mv", [mat, vec])
    scaled = product if alpha == 1 else product * alpha
    return (scaled if beta == 0 else scaled + (self if beta == 1 else self * beta)).to(self.dtype)


@kernel("elu")
def _elu(self, alpha=1, scale=1, input_scale=1):
    if scale == 1 and input_scale == 1:
        return run("elu", [self], alpha=alpha)
    if scale == 1 and input_scale * alpha == 1:
        return run("celu", [self], alpha=alpha)
    if input_scale == 1 and abs(scale - 1.0507009873554805) < 1e-9:
        return run("selu", [self])
    return run("elu", [self * input_scale], alpha=alpha) * scale


@kernel("elu_")
def _elu_(self, alpha=1, scale=1, input_scale=1):
    return self.copy_(_elu(self, alpha, scale, input_scale))


@kernel("clamp.Tensor")
def _clamp_tensor(self, min=None, max=None):
    if min is not None and max is not None:
        return run("clamp_tensor", [self, min, max])
    return run("maximum", [self, min]) if min is not None else run("minimum", [self, max])


@kernel("clamp_.Tensor")
def _clamp_tensor_(self, min=None, max=None):
    result = _clamp_tensor(self, min, max)
    if not torch.can_cast(result.dtype, self.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {self.dtype}")
    return self.copy_(result)


@kernel("ldexp.Tensor")
def _ldexp(self, other):
    if other.dtype.is_floating_point or not self.dtype.is_floating_point:
        return self * torch.pow(2.0, other)
    # A power of two may be past the largest float32 although the product is not: the exponent goes into three
    # factors, each of which is one. Beyond 375 every product of a float32 is infinite or zero.
    exponent = other.to(torch.int64).clamp(-375, 375)
    third = torch.div(exponent, 3, rounding_mode="trunc")
    factor = torch.pow(2.0, third)
    return (self * factor * factor * torch.pow(2.0, exponent - 2 * third)).to(self.dtype)


@kernel("ldexp_")
def _ldexp_(self, other):
    return self.copy_(_ldexp(self, other))


@kernel("glu")
def _glu(self, dim=-1):
    value, gate = self.chunk(2, dim)
    return value * torch.sigmoid(gate)


@kernel("equal")
def _equal(self, other):
    return self.shape == other.shape and bool(run("all", [run("eq", [self, other])]).item())


@kernel("isin.Tensor_Tensor")
def _isin(elements, test_elements, *, assume_unique=False, invert=False):
    found = (elements.unsqueeze(-1) == test_elements.flatten()).any(-1)
    return found.logical_not() if invert else found


@kernel("trace")
def _trace(self):
    return self.diagonal().sum()


@kernel("mse_loss")
def _mse_loss(self, target, reduction=1):
    squares = run("square", [self - target])
    return squares if reduction == 0 else squares.mean() if reduction == 1 else squares.sum()


# Gradients.


@kernel("threshold_backward")
def _threshold_backward(grad_output, self, threshold):
    # The comparison is false at NaN, so the gradient passes there, as on the CPU.
    return torch.where(self <= threshold, 0.0, grad_output)


@kernel("sigmoid_backward")
def _sigmoid_backward(grad_output, output):
    return grad_output * (output * (1 - output))


@kernel("tanh_backward")
def _tanh_backward(grad_output, output):
    return grad_output * (1 - run("square", [output]))


@kernel("_softmax_backward_data")
def _softmax_backward(grad_output, output, dim, input_dtype):
    weighted = grad_output * output
    return weighted - output * weighted.sum(dim, keepdim=True)


@kernel("_log_softmax_backward_data")
def _log_softmax_backward(grad_output, output, dim, input_dtype):
    return grad_output - output.exp() * grad_output.sum(dim, keepdim=True)


# Borders.


def _bordered(name, mode):
    @kernel(name)
    def pad(self, padding):
        return run("pad", [self], pad=list(padding), mode=mode)


for _rank in (1, 2, 3):
    _bordered(f"reflection_pad{_rank}d", "reflect")
    _bordered(f"replication_pad{_rank}d", "replicate")
