"""Norms over features, groups and batches, with the moments that their gradients need."""

from __future__ import annotations

import torch

from .registration import kernel, run


def _moments(input, dims, eps):
    var, mean = run("var_mean", [input], dim=dims, correction=0, keepdim=True)
    return mean, torch.rsqrt(var + eps)


@kernel("native_layer_norm")
def _native_layer_norm(input, normalized_shape, weight, bias, eps):
    shape = list(normalized_shape)
    dims = list(range(input.dim() - len(shape), input.dim()))
    out = layer_norm(input, shape, weight, bias, eps)
    return (out, *_moments(input, dims, eps))


def layer_norm(input, shape, weight, bias, eps):
    if weight is None and bias is not None:
        weight = torch.ones(shape, dtype=input.dtype, device=input.device)
    return run("layer_norm", [input, weight, bias], normalized_shape=shape, eps=eps)


@kernel("native_group_norm")
def _native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    if weight is None and bias is not None:
        weight = torch.ones(C, dtype=input.dtype, device=input.device)
    out = run("group_norm", [input, weight, bias], num_groups=group, eps=eps)
    mean, rstd = _moments(input.reshape(N, group, -1), [2], eps)
    return out, mean.reshape(N, group), rstd.reshape(N, group)


@kernel("native_batch_norm", "_native_batch_norm_legit")
def _native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    if weight is None and bias is not None:
        weight = torch.ones_like(bias)
    if not training:
        out = run("batch_norm", [input, running_mean, running_var, weight, bias], eps=eps)
        return out, input.new_empty(0), input.new_empty(0)
    dims = [d for d in range(input.dim()) if d != 1]
    var, mean = run("var_mean", [input], dim=dims, correction=0, keepdim=False)
    if running_mean is not None:
        count = input.numel() // input.shape[1]
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        running_var.mul_(1 - momentum).add_(var, alpha=momentum * count / max(count - 1, 1))
    out = run("batch_norm", [input, mean, var, weight, bias], eps=eps)
    return out, mean, torch.rsqrt(var + eps)


@kernel("_native_batch_norm_legit_no_training")
def _batch_norm_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    return _native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
