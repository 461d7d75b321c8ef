"""Rows with typed columns, whatever they are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agentcompass.coordinator.reading.columns import Column, Kind, Value

_RowT = TypeVar("_RowT")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and rows that can be gone through once."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    rows: Iterator[tuple[Value, ...]]

    @classmethod
    def of(cls, columns: Sequence[Column[_RowT]], rows: Iterable[_RowT]) -> Table:
        """Return the table of these rows."""
        return cls(
            names=tuple(column.name for column in columns),
            kinds=tuple(column.kind for column in columns),
            rows=(tuple(column.value(row) for column in columns) for row in rows),
        )
