"""The sizes that dimensions can take, as ``max=`` and ``dynamic=`` say them."""

from __future__ import annotations

import operator
from typing import NamedTuple


class WrongType(TypeError, ValueError):
    """An argument of a wrong type. torch-spyre raises a ValueError, and Python a TypeError, so this is both."""


class Range(NamedTuple):
    """The sizes that a dimension can take."""

    min: int
    max: int
    granularity: int

    def __str__(self) -> str:
        steps = f" in steps of {self.granularity}" if self.granularity > 1 else ""
        return f"{self.min} to {self.max}{steps}"

    def check(self, size: int, place: str) -> None:
        """Refuses a size that is not among them."""
        if not self.min <= size <= self.max:
            raise RuntimeError(f"{place} is {size}, outside of the reservation: it can be {self}")
        if size % self.granularity:
            below = size - size % self.granularity
            near = [n for n in (below, below + self.granularity) if self.min <= n <= self.max]
            raise RuntimeError(
                f"{place} is {size}, not a multiple of the granularity {self.granularity}: the nearest are "
                + " and ".join(map(str, near))
            )


def ranges(size: list[int], given, place: str) -> dict[int, Range]:
    """Ranges by dimension, each around the present size."""
    if not isinstance(given, dict):
        raise WrongType(f"{place} is {given!r}: a dict is wanted, from dimensions to sizes, such as {{0: {{'min': 1, 'max': 64}}}}")
    if not given:
        raise ValueError(f"{place} is empty: name at least one dimension")
    found: dict[int, Range] = {}
    for key, value in given.items():
        d = integer(key, f"{place}: a dimension")
        if not -len(size) <= d < len(size):
            raise IndexError(f"{place}: there is no dimension {d} in a tensor of size {size}")
        d %= len(size)
        if d in found:
            raise ValueError(f"{place} names dimension {d} twice: as {d} and as {d - len(size)}")
        here = f"{place}[{key}]"
        found[d] = _range(value, here)
        try:
            found[d].check(size[d], f"{here}: the present size")
        except RuntimeError as error:
            raise ValueError(str(error)) from None
    return dict(sorted(found.items()))


_KEYS = ("min", "max", "granularity")


def _range(given, place: str) -> Range:
    if not isinstance(given, dict):
        given = {"max": integer(given, f"{place}, a size or a dict with {', '.join(_KEYS)},")}
    for key in given:
        if key not in _KEYS:
            raise ValueError(f"{place} has no key {key!r}: max is needed, min (0) and granularity (1) can be given")
    if "max" not in given:
        raise ValueError(f"{place} is {given}, without the largest size: give max")
    low, high, step = (integer(given.get(k, default), f'{place}["{k}"]') for k, default in zip(_KEYS, (0, None, 1)))
    if step < 1:
        raise ValueError(f'{place}["granularity"] is {step}: 1 or more is wanted')
    if not 0 <= low <= high < 1 << 63:
        raise ValueError(f"{place}: min {low} and max {high} are no range of sizes: 0 <= min <= max < 2^63 is wanted")
    for key, value in (("min", low), ("max", high)):
        if value % step:
            raise ValueError(f'{place}["{key}"] is {value}, which is not a multiple of the granularity {step}')
    return Range(low, high, step)


def integer(value, place: str) -> int:
    """A whole number, of any type that counts as one; truth values do not."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise WrongType(f"{place} is {value!r}: an integer is wanted") from None
