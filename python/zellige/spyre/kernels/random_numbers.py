"""Random numbers. The card draws them from seeds (:mod:`zellige.spyre.random`); those of a generator are drawn by the
CPU."""

from __future__ import annotations

import torch

from .. import random
from .factories import made_like
from .registration import kernel, run, run_alike, run_into


def _drawn(out, op, generator, draw, **attributes):
    """Fills a tensor with random numbers of the card, or of a generator of the CPU."""
    if out.numel() == 0:
        return out
    if generator is not None:
        return out.copy_(draw(torch.empty(out.shape, dtype=out.dtype)))
    seed = random.draw(out.device.index)
    made = made_like(out)
    if not out.dtype.is_floating_point and op != "randint":
        made["dtype"] = torch.float32
    return run_into(op, [], out, size=list(out.shape), seed=seed, **attributes, **made)


@kernel("uniform_")
def _uniform(self, low=0.0, high=1.0, *, generator=None, **kw):
    low = kw.get("from", low)
    high = kw.get("to", high)
    return _drawn(self, "uniform", generator, lambda t: t.uniform_(low, high, generator=generator), low=low, high=high)


@kernel("normal_")
def _normal(self, mean=0.0, std=1.0, *, generator=None):
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return _drawn(self, "normal", generator, lambda t: t.normal_(mean, std, generator=generator), mean=mean, std=std)


def _end(dtype) -> int:
    """The end of the range of `random_` where the user gives none: the dtype holds every integer below it exactly."""
    if dtype is torch.bool:
        return 2
    if dtype.is_floating_point:
        return round(2 / torch.finfo(dtype).eps)
    largest = torch.iinfo(torch.int64 if dtype.is_complex else dtype).max
    return largest + 1 if largest < torch.iinfo(torch.int32).max else largest


@kernel("random_.from")
def _random_from(self, low, high=None, *, generator=None):
    high = _end(self.dtype) if high is None else high
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return _drawn(self, "randint", generator, lambda t: t.random_(low, high, generator=generator), low=low, high=high)


@kernel("random_.to")
def _random_to(self, high, *, generator=None):
    return _random_from(self, 0, high, generator=generator)


@kernel("random_")
def _random(self, *, generator=None):
    return _random_from(self, 0, generator=generator)


@kernel("bernoulli_.float")
def _bernoulli_float(self, p=0.5, *, generator=None):
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if generator is not None:
        return self.copy_(torch.empty(self.shape, dtype=self.dtype).bernoulli_(p, generator=generator))
    if self.numel() == 0:
        return self
    attributes = dict(size=list(self.shape), p=1 - p, seed=random.draw(self.device.index), device=self.device.index)
    return run_into("dropout_mask", [], self, **attributes)


@kernel("bernoulli")
def _bernoulli(self, *, generator=None):
    if generator is not None:
        return torch.bernoulli(self.cpu(), generator=generator).to(self.device)
    if self.numel() and not ((self >= 0) & (self <= 1)).all():
        raise RuntimeError("bernoulli expects all probabilities to be in [0, 1]")
    return run("bernoulli", [self], seed=random.draw(self.device.index))


@kernel("bernoulli_.Tensor")
def _bernoulli_tensor(self, p, *, generator=None):
    return self.copy_(_bernoulli(p.to(self.device).expand(self.shape), generator=generator))


@kernel("native_dropout")
def _native_dropout(input, p, train):
    if train is False or p == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    seed = random.draw(input.device.index)
    mask = run("dropout_mask", [], size=list(input.shape), p=p, seed=seed, device=input.device.index)
    return run_alike("dropout", input, p=p, seed=seed), mask
