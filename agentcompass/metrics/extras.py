"""What we add under `extra` of a report and of its series: the types, and how they are read back.

    report  extra.partial, extra.failures
    series  extra.uncertainty, extra.category_uncertainty, extra.bounds

Each is absent where it does not apply, and in reports of other writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import Field, JsonValue, TypeAdapter
from pydantic_core import to_json

from agentcompass.metrics.formula.uncertainty import Uncertainty
from agentcompass.models.base import Frozen
from agentcompass.models.metric import MetricReport, MetricSeries

NoteT = TypeVar("NoteT", bound=Frozen)
_BY_CATEGORY = TypeAdapter(dict[str, Uncertainty])


class PartialNote(Frozen):
    """Marks a report over attempts that are not all terminal: no value in it is final."""

    status: str
    """The run's: running, cancelled, interrupted, …"""
    missing: int = Field(ge=0)
    """Attempts without a terminal result."""


class Bounds(Frozen):
    """Both readings of the tasks without a value: all of them the worst, or all of them the best.

    Of a binary series: counted as failures and as successes. Null without any task.
    """

    lower: float | None
    upper: float | None
    n: int = Field(ge=0)
    """All tasks."""


def partial_note(report: MetricReport) -> PartialNote | None:
    """Return the mark of a partial report; ValidationError if it is malformed, as all below."""
    return read_note(report.extra, "partial", PartialNote)


def uncertainty(series: MetricSeries) -> Uncertainty | None:
    """Return the uncertainty of the printed value."""
    return read_note(series.extra, "uncertainty", Uncertainty)


def bounds(series: MetricSeries) -> Bounds | None:
    """Return both readings of the tasks without a value."""
    return read_note(series.extra, "bounds", Bounds)


def category_uncertainty(series: MetricSeries) -> dict[str, Uncertainty] | None:
    """Return the uncertainty of each category's value."""
    found = series.extra.get("category_uncertainty")
    return None if found is None else _BY_CATEGORY.validate_json(to_json(found))


def read_note(extra: Mapping[str, JsonValue], key: str, note: type[NoteT]) -> NoteT | None:
    """Return one typed key of an `extra`, None if it is absent or null."""
    found = extra.get(key)
    return None if found is None else note.model_validate_json(to_json(found))
