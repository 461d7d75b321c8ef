"""What each number covers: no value without evaluated tasks, and every task in one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from agentcompass.metrics.cells import add_counts
from agentcompass.metrics.rules.identity import is_ours
from agentcompass.models.metric import Counts, MetricReport, MetricSeries

_ABOUT_TASKS = ("total", "error", "invalidated")


class Valued(Protocol):
    """A series, a category or a node of the hierarchy."""

    @property
    def value(self) -> float | None: ...
    @property
    def reference_value(self) -> float | None: ...
    @property
    def counts(self) -> Counts: ...


def printed(part: Valued) -> float | None:
    """Return the one number that is shown: the official one, else the reference."""
    return part.value if part.value is not None else part.reference_value


def count_problems(report: MetricReport, total: int | None) -> Iterator[str]:
    """Yield broken rules of counts; `total` is the length of the frozen task list, if known."""
    first = report.series[0].counts
    if total is not None and first.total != total:
        yield f"total is {first.total}, the run has {total} tasks"
    if report.evaluation_failed != (first.invalidated > 0):
        yield f"evaluation_failed is {report.evaluation_failed}, invalidated is {first.invalidated}"
    for series in report.series:
        for name in _ABOUT_TASKS:
            if getattr(series.counts, name) != getattr(first, name):
                yield f"{series.series_id}: {name} differs from {report.series[0].series_id}"
        for problem in _series_problems(report, series):
            yield f"{series.series_id}: {problem}"


def _series_problems(report: MetricReport, series: MetricSeries) -> Iterator[str]:
    parts: dict[str, Valued] = {
        "": series,
        **{f"category {name!r} ": part for name, part in series.categories.items()},
        **{f"node {path!r} ": part for path, part in series.hierarchy.items()},
    }
    for prefix, part in parts.items():
        for problem in _value_problems(part, is_failed=report.evaluation_failed):
            yield prefix + problem
        if is_ours(series) and part.counts.evaluated and printed(part) is None:
            yield f"{prefix}has evaluated tasks but no value"
    if series.categories or is_ours(series):
        below = add_counts(part.counts for part in series.categories.values())
        if below != series.counts:
            yield "the counts of the categories do not add up to those of the series"


def _value_problems(part: Valued, *, is_failed: bool) -> Iterator[str]:
    if is_failed and part.value is not None:
        yield "has an official value although the evaluation failed"
    if not is_failed and part.reference_value is not None:
        yield "has a reference value although the evaluation did not fail"
    if not part.counts.evaluated and printed(part) is not None:
        yield "has a value without an evaluated task"
