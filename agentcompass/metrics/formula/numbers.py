"""Sums and means that do not depend on the order of their terms, not even in the last bit.

`math.fsum` rounds once, at the end, so any order gives the same float. Its only weakness, an
intermediate overflow, is met with exact fractions: the mean of finite numbers is always finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import fsum, isfinite


def mean(values: Sequence[float]) -> float:
    """Return the mean of one or more finite numbers."""
    return mean_of(values, len(values))


def mean_of(values: Iterable[float], count: int) -> float:
    """Return sum(values) / count, finite if no value exceeds the mean's own range.

    `values` is gone through twice when a sum overflows, so it must not be an iterator then;
    callers hand in sequences or something that can be iterated again.
    """
    try:
        return fsum(values) / count
    except OverflowError:
        total = sum(map(Fraction, values), Fraction())
        try:
            # The same two roundings as above: fsum may overflow in one order and not in another.
            return float(total) / count
        except OverflowError:
            return float(total / count)


def weighted_mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return sum(w*v) / sum(w) of (weight, value) pairs, None if there is no weight."""
    weight = fsum(w for w, _ in pairs)
    if weight <= 0:
        return None
    try:
        value = fsum(w * v for w, v in pairs) / weight
    except OverflowError:
        value = float("inf")
    if isfinite(value):
        return value
    exact = [(Fraction(w), Fraction(v)) for w, v in pairs]
    return float(sum(w * v for w, v in exact) / sum(w for w, _ in exact))
