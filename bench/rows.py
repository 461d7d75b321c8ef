"""A row of the table: some measurements of one thing, beside those of its floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

Unit = Literal["s", "ms", "MB", "kB", "B", "/s", ""]
"""MB and kB are 10^6 and 10^3 bytes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. A ratio is the bar where there is a floor: seconds depend on the machine."""

    what: str
    unit: Unit
    values: Sequence[float]
    """One per round."""
    floor: str = ""
    """What the floor is; "" if there is none."""
    floors: Sequence[float] = ()
    """Of the same rounds."""
    at_most: float | None = None
    """The largest good ratio, or the largest good value of a row without a floor."""

    @property
    def value(self) -> float:
        """The middle one."""
        return median(self.values)

    @property
    def ratio(self) -> float | None:
        """The middle one of the rounds' own ratios: a machine that slows down slows both."""
        if not self.floors:
            return None
        pairs = zip(self.values, self.floors, strict=True)
        return median(value / max(floor, 1e-9) for value, floor in pairs)

    @property
    def is_good(self) -> bool | None:
        """None if nothing is asked of it."""
        if self.at_most is None:
            return None
        return (self.value if self.ratio is None else self.ratio) <= self.at_most

    def as_json(self) -> dict[str, object]:
        """Return the fields and what follows from them."""
        floor = median(self.floors) if self.floors else None
        derived = {"value": self.value, "floor_value": floor, "ratio": self.ratio}
        return asdict(self) | derived | {"is_good": self.is_good}


def table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    head = ("figure", "median", "floor", "× floor", "at most", "")
    lines = [head, ("---",) * len(head), *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    floor = f"{_number(median(row.floors), row.unit)} ({row.floor})" if row.floors else "–"
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
    good = {None: "", True: "ok", False: "above"}[row.is_good]
    return (row.what, _number(row.value, row.unit), floor, ratio, _bar(row), good)


def _bar(row: Row) -> str:
    if row.at_most is None:
        return "–"
    return f"{row.at_most:g} ×" if row.floors else f"{row.at_most:g} {row.unit}".strip()


def _number(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 3 if abs(value) < 1 else 2
    return f"{value:,.{digits}f} {unit}".strip()
