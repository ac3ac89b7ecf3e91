"""PyTorch's fused operators for multi-head attention and encoder layers, by operators of the card.

Modules in evaluation mode call them on the CPU, on GPUs and on extension devices: their fast path. Here they are a
sequence of products, attention and norms, also where a graph is traced. The third fast path packs sequences of several
lengths into nested tensors, which the device does not have: it is told that no mask allows it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..dispatcher import register

# What a mask is, as the module numbers it: of queries and keys, of the keys of each sequence, or of both.
_OF_SCORES, _OF_KEYS = 0, 1


def _added(mask, kind, dtype):
    """A mask as a number that is added to scores of `batch x heads x queries x keys`."""
    if mask is None:
        return None
    if kind == _OF_KEYS:
        mask = mask.view(mask.shape[0], 1, 1, mask.shape[1])
    elif kind == _OF_SCORES:
        mask = mask.view(1, 1, *mask.shape) if mask.dim() == 2 else mask
    if mask.dtype is torch.bool:
        mask = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, float("-inf"))
    return mask.to(dtype)


def attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, need_weights=True,
    average_attn_weights=True, mask_type=None,
):
    """The result of multi-head attention of a tensor with itself, and the weights where they are wanted."""
    batch, length, _ = query.shape
    packed = F.linear(query, qkv_weight, qkv_bias).view(batch, length, 3, num_head, embed_dim // num_head)
    q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
    bias, weights = _added(mask, mask_type, query.dtype), None
    if need_weights:
        scores = (q * (embed_dim // num_head) ** -0.5) @ k.transpose(-1, -2)
        weights = torch.softmax(scores if bias is None else scores + bias, -1)
        heads = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        heads = F.scaled_dot_product_attention(q, k, v, None if bias is None else bias.expand(batch, num_head, length, length))
    joined = heads.transpose(1, 2).reshape(batch, length, embed_dim)
    return F.linear(joined, proj_weight, proj_bias), weights


def encoder_layer(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
    norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None,
):
    """An encoder layer: attention and a network of two layers, each with a norm and a residual."""

    def norm(x, weight, bias):
        return F.layer_norm(x, [embed_dim], weight, bias, eps)

    def attend(x):
        given = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, False, mask_type)
        return attention(x, x, x, *given)[0]

    def feed(x):
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return src + feed(norm(src, norm_weight_2, norm_bias_2))
    src = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(src + feed(src), norm_weight_2, norm_bias_2)


def _left_aligned(t, mask):
    return False


def _nested(t, mask, mask_check=True):
    raise NotImplementedError(
        "the device has no nested tensors, which TransformerEncoder(mask_check=False) asks for: leave mask_check at True, "
        "or set enable_nested_tensor=False"
    )


def install() -> None:
    """Registers them, also above autograd, so that a traced graph has the single operators."""
    for name, function in (("_native_multi_head_attention", attention), ("_transformer_encoder_layer_fwd", encoder_layer)):
        register(name, torch._disable_dynamo(function), "PrivateUse1", "AutogradPrivateUse1")
    register("_nested_tensor_from_mask_left_aligned", torch._disable_dynamo(_left_aligned))
    register("_nested_tensor_from_mask", torch._disable_dynamo(_nested))
