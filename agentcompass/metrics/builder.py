"""For benchmarks that replace the cross-task formula: what `aggregate_metrics` needs, counted right.

    def aggregate_metrics(self, details, report):
        terms = collect(details, report, self.contract, lambda d: tests_of(d))
        ratio = ratio_of_sums(terms, series_like(report, "tests_passed", label="Tests passed"))
        return with_series(report, ratio)

Each task gives a pair (y, x), summed over its attempts; a task of which an attempt gives none is
unavailable, one with a FATAL invalidated, exactly as in the series that we compute.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import TypeAlias

from agentcompass.metrics.formula.uncertainty import Uncertainty, standard_error, t_975
from agentcompass.metrics.per_task.strategies import STRATEGIES
from agentcompass.models.metric import (
    Counts,
    MetricContract,
    MetricDisplay,
    MetricReport,
    MetricSeries,
)
from agentcompass.models.result import AttemptOutcome, AttemptResult

Pair: TypeAlias = tuple[float, float]
Pick: TypeAlias = Callable[[AttemptResult], Pair | None]
"""One attempt -> (y, x), for instance (tests passed, tests); None if it has no such number."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The pairs of the evaluated tasks, and what they cover."""

    y: array[float]
    x: array[float]
    counts: Counts
    is_failed: bool


@dataclass(slots=True)
class _Task:
    pairs: dict[int, Pair] = field(default_factory=dict)
    outcomes: dict[int, AttemptOutcome] = field(default_factory=dict)


def collect(
    details: Iterable[AttemptResult], report: MetricReport, contract: MetricContract, pick: Pick
) -> Terms:
    """Return the pairs of all evaluated tasks. Keeps one small object per attempt.

    Raises:
        ValueError: `pick` returned a number that is not finite, or there are more tasks than the
            report has.
    """
    tasks: dict[str, _Task] = {}
    for detail in details:
        task = tasks.setdefault(detail.task_id, _Task())
        pair = pick(detail)
        if pair is not None:
            if not all(map(isfinite, pair)):
                raise ValueError(
                    f"{detail.task_id!r} attempt {detail.attempt}: {pair} is not finite"
                )
            task.pairs[detail.attempt] = pair
        task.outcomes[detail.attempt] = AttemptOutcome(
            metrics=detail.metrics, issues=detail.issues, skipped=detail.status == "skipped"
        )
    needed = STRATEGIES.get(report.strategy).needed
    y, x = array("d"), array("d")
    for _, task in sorted(tasks.items()):
        attempts = [task.outcomes.get(number) for number in range(1, report.k + 1)]
        counted = range(1, needed(contract, attempts) + 1)
        if not _is_invalidated(task, counted) and all(n in task.pairs for n in counted):
            y.append(fsum(task.pairs[number][0] for number in counted))
            x.append(fsum(task.pairs[number][1] for number in counted))
    return Terms(y, x, _counts(report, len(y)), report.evaluation_failed)


def _is_invalidated(task: _Task, counted: Iterable[int]) -> bool:
    outcomes = (task.outcomes.get(number) for number in counted)
    issues = (issue for outcome in outcomes if outcome is not None for issue in outcome.issues)
    return any(issue.severity == "fatal" for issue in issues)


def _counts(report: MetricReport, evaluated: int) -> Counts:
    """Return the counts of a series with so many evaluated tasks: the rest is about tasks."""
    of = report.headline.counts
    if evaluated + of.invalidated > of.total:
        raise ValueError(f"{evaluated} tasks have terms, only {of.total - of.invalidated} can")
    return Counts(
        total=of.total,
        evaluated=evaluated,
        error=of.error,
        unavailable=of.total - of.invalidated - evaluated,
        invalidated=of.invalidated,
    )


def series_like(
    report: MetricReport, metric_id: str, *, reducer: str = "sum", label: str | None = None
) -> MetricSeries:
    """Return an auxiliary series without a value, to be filled and appended."""
    return MetricSeries(
        series_id=f"{metric_id}.{reducer}@{report.k}",
        metric_id=metric_id,
        kind="scalar",
        reducer=reducer,
        role="auxiliary",
        aggregation="custom",
        k=report.k,
        value=None,
        reference_value=None,
        counts=_counts(report, 0),
        display=MetricDisplay(label=label or metric_id),
    )


def ratio_of_sums(terms: Terms, series: MetricSeries) -> MetricSeries:
    """Return the series with sum(y) / sum(x), null if sum(x) is 0.

    Its standard error is that of the linearized ratio, sqrt(n / (n-1) * sum((y - R*x)**2)) / sum(x)
    (Cochran 1977, Sampling Techniques, eq. 6.13), tasks as units.
    """
    total_y, total_x = _sum(terms.y), _sum(terms.x)
    if total_y is None or not total_x:
        return filled(series, terms, None, formula="ratio_of_sums")
    ratio = total_y / total_x
    residuals = array("d", (y - ratio * x for y, x in zip(terms.y, terms.x, strict=True)))
    spread = standard_error(residuals, 0.0)
    stderr = None if spread is None else spread * len(residuals) / abs(total_x)
    return filled(series, terms, ratio, formula="ratio_of_sums", stderr=stderr)


def sum_of(terms: Terms, series: MetricSeries) -> MetricSeries:
    """Return the series with sum(y) over the evaluated tasks; its counts say what it leaves out."""
    total, n = _sum(terms.y), len(terms.y)
    if total is None:
        return filled(series, terms, None, formula="sum")
    spread = standard_error(terms.y, total / n)
    stderr = None if spread is None else spread * n
    return filled(series, terms, total, formula="sum", stderr=stderr)


def filled(
    series: MetricSeries,
    terms: Terms,
    value: float | None,
    *,
    formula: str,
    stderr: float | None = None,
) -> MetricSeries:
    """Return the series with a value of your own, official or reference as the rules demand.

    Categories, tree and bounds of the old formula are dropped: they do not explain this value.

    Args:
        formula: its name; none of ours, which would be computed again and compared.
        stderr: of the value, None if undefined.
    """
    if value is not None and not isfinite(value):
        value, stderr = None, None
    n = terms.counts.evaluated
    limits = _limits(series, value, stderr, n)
    note = Uncertainty(stderr=stderr, ci95=limits, method="custom", n=n)
    return MetricSeries(
        series_id=series.series_id,
        metric_id=series.metric_id,
        kind=series.kind,
        reducer=series.reducer,
        role=series.role,
        aggregation=formula,
        k=series.k,
        value=None if terms.is_failed else value,
        reference_value=value if terms.is_failed else None,
        counts=terms.counts,
        display=series.display,
        extra={"uncertainty": note.model_dump(mode="json")},
    )


def with_series(report: MetricReport, *series: MetricSeries) -> MetricReport:
    """Return the report with these series: in the place of one with the same id, else at the end."""
    new = {each.series_id: each for each in series}
    kept = [new.pop(old.series_id, old) for old in report.series]
    return report.model_copy(update={"series": (*kept, *new.values())})


def _limits(
    series: MetricSeries, value: float | None, stderr: float | None, n: int
) -> tuple[float, float] | None:
    if value is None or stderr is None or n < 2:
        return None
    half = t_975(n - 1) * stderr
    low, high = value - half, value + half
    if series.kind == "binary_success":
        low, high = max(0.0, low), min(1.0, high)
    return (low, high) if isfinite(low) and isfinite(high) else None


def _sum(values: array[float]) -> float | None:
    """Return the exact sum, None without values or beyond the range of floats."""
    try:
        return fsum(values) if values else None
    except OverflowError:
        return None
