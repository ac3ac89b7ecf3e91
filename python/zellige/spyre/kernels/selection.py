"""Operators whose result size or content depends on values: nonzero, masks, weighted draws and histograms.

How many there are is only known on the card: the host asks for that one number, and the elements stay where they are.
"""

from __future__ import annotations

import torch


def nonzero(self):
    """The places of all elements that are not zero, a row for each."""
    if self.dim() == 0:
        return torch.zeros((int(bool(self.item())), 0), dtype=torch.int64, device=self.device)
    found = _places(self)
    columns = []
    for size in reversed(self.shape):
        columns.append(found % size)
        found = found // size
    return torch.stack(columns[::-1], 1)


def _places(mask):
    """The places of what is not zero, in row-major order."""
    chosen = (mask if mask.dtype is torch.bool else mask != 0).flatten()
    if chosen.numel() == 0:
        return torch.zeros(0, dtype=torch.int64, device=mask.device)
    # The running count of chosen elements is the position of each in the result. The others go to one extra position.
    rank = chosen.to(torch.int64).cumsum(0)
    count = int(rank[-1].item())
    target = torch.where(chosen, rank - 1, count)
    places = torch.arange(chosen.numel(), device=mask.device)
    return torch.zeros(count + 1, dtype=torch.int64, device=mask.device).scatter(0, target, places)[:count].clone()


def masked_select(self, mask):
    """The elements that a mask chooses."""
    self, mask = torch.broadcast_tensors(self, mask)
    return self.flatten().index_select(0, _places(mask))


def masked_scatter_(self, mask, source):
    """Writes the first elements of a source, in their order, where a mask is true."""
    if self.dtype != source.dtype:
        raise RuntimeError(f"masked_scatter_: expected self and source to have same dtypes but got {self.dtype} and {source.dtype}")
    if mask.dtype is not torch.bool:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    mask = mask.expand(self.shape)
    if self.numel() == 0:
        return self
    rank = mask.flatten().to(torch.int64).cumsum(0)
    if int(rank[-1].item()) > source.numel():
        raise RuntimeError("masked_scatter: expected number of elements in source to be greater than or equal to the number of ones in mask")
    if source.numel() == 0:
        return self
    taken = source.flatten().index_select(0, (rank - 1).clamp(0, source.numel() - 1)).view(self.shape)
    return self.copy_(torch.where(mask, taken, self))


def multinomial(self, num_samples, replacement=False, *, generator=None):
    """Places drawn by weight; NotImplemented with a generator, whose numbers the CPU draws."""
    if generator is not None:
        return NotImplemented
    if self.dim() not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, not {self.dim()}")
    if not self.is_floating_point():
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {self.dtype}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > self.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    weights = self.float()
    if not bool(((weights >= 0) & weights.isfinite()).all().item()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    total = weights.sum(-1, keepdim=True)
    if not bool((total > 0).all().item()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement and num_samples > 1:
        # Inverse transform sampling: the first position whose cumulative weight exceeds a uniform draw.
        sums = weights.cumsum(-1)
        draws = torch.rand((*self.shape[:-1], num_samples), device=self.device) * total
        found = (sums.unsqueeze(-2) <= draws.unsqueeze(-1)).sum(-1)
        last = torch.where(weights > 0, torch.arange(self.shape[-1], device=self.device), 0).amax(-1, keepdim=True)
        return torch.minimum(found, last)
    if not bool(((weights > 0).sum(-1) >= num_samples).all().item()):
        raise RuntimeError("invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)")
    # Exponential races: with rates equal to the weights, the first arrivals are a draw without replacement.
    waits = -torch.log1p(-torch.rand(weights.shape, device=self.device))
    return (weights / waits.clamp(min=1e-30)).topk(num_samples, -1)[1]


def histc(self, bins=100, min=0, max=0):
    """Counts of elements in bins of one width; NotImplemented for integers."""
    if not self.is_floating_point() or bins < 1:
        return NotImplemented
    if min > max:
        raise RuntimeError("max must be larger than min")
    x = self.flatten()
    if x.numel() == 0:
        return torch.zeros(bins, dtype=self.dtype, device=self.device)
    low, high = torch.full((), float(min), device=self.device), torch.full((), float(max), device=self.device)
    if min == max:
        low, high = x.float().amin(), x.float().amax()
        same = (low == high).to(torch.float32)
        low, high = low - same, high + same
    wide = x.float()
    at = ((wide - low) * bins / (high - low)).floor().clamp(0, bins - 1)
    # Elements outside of the range go into an extra bin at the end, which is left out.
    at = torch.where((wide >= low) & (wide <= high), at, float(bins)).to(torch.int64)
    counts = torch.zeros(bins + 1, device=self.device).scatter_add(0, at, torch.ones_like(wide))
    return counts[:bins].to(self.dtype)
