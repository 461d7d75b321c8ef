"""Numbers as words."""

from __future__ import annotations

from agentcompass.metrics.formula.uncertainty import Uncertainty
from agentcompass.metrics.usage import Total
from agentcompass.models.metric import Counts, MetricDisplay, MetricSeries

NOTHING = "–"
"""Stands where there is no value. Never 0."""
_DIGITS = 4
_HUGE = 1e7
_TINY = 1e-3


def number(value: float | None, display: MetricDisplay | None = None) -> str:
    """Return a value with the declared digits and unit, 4 digits by default."""
    if value is None:
        return NOTHING
    value = value or 0.0  # without the sign of -0.0
    precision = display.precision if display is not None else None
    unit = f" {display.unit}" if display is not None and display.unit else ""
    if precision is not None:
        return f"{value:.{max(0, min(precision, 17))}f}{unit}"
    is_plain = value == 0 or _TINY <= abs(value) < _HUGE
    return (f"{value:.{_DIGITS}f}" if is_plain else f"{value:.{_DIGITS}g}") + unit


def interval(note: Uncertainty | None, display: MetricDisplay | None = None) -> str:
    """Return the 95 % interval."""
    if note is None or note.ci95 is None:
        return NOTHING
    low, high = note.ci95
    return f"{number(low, display)} to {number(high, display)}"


def covered(counts: Counts) -> str:
    """Return what a number is over."""
    return f"{counts.evaluated} of {counts.total}"


def series_name(series: MetricSeries) -> str:
    """Return the label with reducer and k, which no two series share."""
    return f"{series.display.label or series.metric_id} ({series.reducer}@{series.k})"


def total(of: Total, *, digits: int) -> str:
    """Return a sum and how many executions it covers, if not all."""
    if of.value is None:
        return NOTHING
    shown = f"{of.value:,.{digits}f}"
    return shown if of.known == of.of else f"{shown} (of {of.known} of {of.of})"


def plural(count: int, noun: str) -> str:
    """Return the count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return f"+{number(value)}" if value > 0 else number(value)
