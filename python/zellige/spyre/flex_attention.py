"""``flex_attention`` on the card.

PyTorch compiles it into kernels of the devices that it knows. Here scores are computed whole, the functions of the
user change them element by element, and the compiler takes all of it as operators of one graph.
"""

from __future__ import annotations

import functools
import math

import torch


def _of_blocks(mask, queries: int, keys: int):
    """The elements of the blocks that a mask has, for a mask that is nothing but its blocks."""
    rows, columns = mask.BLOCK_SIZE
    blocks = mask.to_dense().bool()
    return blocks.repeat_interleave(rows, -2).repeat_interleave(columns, -1)[..., :queries, :keys]


def attention(query, key, value, score_mod, block_mask, scale, enable_gqa):
    """The result, the logarithm of the sums, and the largest scores."""
    batch, heads, queries, width = query.shape
    if enable_gqa and key.shape[1] != heads:
        key, value = (t.repeat_interleave(heads // t.shape[1], 1) for t in (key, value))
    if query.shape[1] != key.shape[1]:
        raise ValueError(
            f"query has {query.shape[1]} heads and key {key.shape[1]}: give as many, or enable_gqa=True for fewer of key and value"
        )
    keys = key.shape[2]
    scores = (query @ key.transpose(-1, -2)).float() * (1 / math.sqrt(width) if scale is None else scale)
    # The index of each dimension, in the form in which it broadcasts to the scores.
    counts = (batch, heads, queries, keys)
    at = [torch.arange(n, device=query.device).view([-1 if d == e else 1 for e in range(4)]) for d, n in enumerate(counts)]
    if score_mod is not None:
        scores = score_mod(scores, *at).expand(counts)
    if block_mask is not None:
        from torch.nn.attention.flex_attention import noop_mask

        if block_mask.mask_mod is None or block_mask.mask_mod is noop_mask:
            kept = _of_blocks(block_mask, queries, keys)
        else:
            kept = block_mask.mask_mod(*at)
        scores = torch.where(kept.expand(counts), scores, -math.inf)
    largest = scores.amax(-1, keepdim=True)
    # A query without a key has the result zero.
    none = largest == -math.inf
    weights = torch.exp(scores - torch.where(none, 0.0, largest))
    sums = weights.sum(-1, keepdim=True)
    result = (weights / torch.where(none, 1.0, sums)).to(query.dtype) @ value
    logs = torch.where(none, -math.inf, torch.where(none, 0.0, largest) + torch.log(torch.where(none, 1.0, sums)))
    return result, logs.squeeze(-1), largest.squeeze(-1)


def for_the_card(original):
    """PyTorch's function, which takes tensors of the card too."""

    @functools.wraps(original)
    def flex_attention(
        query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
        kernel_options=None, *, return_aux=None,
    ):
        if query.device.type != "spyre":
            return original(
                query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, kernel_options, return_aux=return_aux
            )
        if return_lse and return_aux is not None:
            raise ValueError("return_lse and return_aux both say what else to return: give return_aux alone")
        from torch.nn.attention.flex_attention import AuxOutput

        result, logs, largest = attention(query, key, value, score_mod, block_mask, scale, enable_gqa)
        if return_aux is not None:
            return result, AuxOutput(logs if return_aux.lse else None, largest if return_aux.max_scores else None)
        return (result, logs) if return_lse else result

    return flex_attention
