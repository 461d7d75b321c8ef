"""Numbers that say what they cover: nothing measured is null, never zero."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

from pydantic import Field

from agentcompass.models.base import JsonObject, Record


class Measured(Record):
    """A measure over the steps of one attempt."""

    sum: float | None = None
    max: float | None = None
    known: int = Field(default=0, ge=0)
    """Steps that reported it."""
    of: int = Field(default=0, ge=0)
    """All steps."""

    @property
    def whole(self) -> float | None:
        """The sum if every step reported it; of a part of them it would be too small."""
        return self.sum if self.known == self.of else None


def known(value: float | None) -> float | None:
    """Return a measure, or None if it is none: foreign records hold NaN and negative counts."""
    if value is None or not math.isfinite(value) or value < 0:
        return None
    return value


def measured(values: Iterable[float | None]) -> Measured:
    """Return the measure of one value per step."""
    every = [known(value) for value in values]
    there = [value for value in every if value is not None]
    if not there:
        return Measured(of=len(every))
    return Measured(sum=math.fsum(there), max=max(there), known=len(there), of=len(every))


def share(part: int, whole: int) -> float | None:
    """Return a share, None of nothing."""
    return part / whole if whole else None


class Spread:
    """How a measure is spread over many attempts, 8 bytes each."""

    def __init__(self) -> None:
        self._values = array("d")
        self._unknown = 0

    def add(self, value: float | None) -> None:
        """Take in the measure of one attempt; None = it has none."""
        if value is None:
            self._unknown += 1
        else:
            self._values.append(value)

    def summary(self) -> JsonObject:
        """Return count, sum, mean and percentiles (nearest rank: each was observed)."""
        ordered = sorted(self._values)
        total = math.fsum(ordered) if ordered else None
        return {
            "n": len(ordered),
            "unknown": self._unknown,
            "sum": total,
            "mean": total / len(ordered) if total is not None else None,
            "min": ordered[0] if ordered else None,
            "p50": percentile(ordered, 50),
            "p90": percentile(ordered, 90),
            "p99": percentile(ordered, 99),
            "max": ordered[-1] if ordered else None,
        }


def percentile(ordered: list[float], percent: int) -> float | None:
    """Return the nearest-rank percentile of sorted values; None of none."""
    if not ordered:
        return None
    return ordered[max(math.ceil(percent * len(ordered) / 100), 1) - 1]
