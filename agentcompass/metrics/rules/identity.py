"""Which series there are, and what they are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from agentcompass.metrics.formula.aggregate import AGGREGATIONS
from agentcompass.metrics.per_task.series import SeriesPlan
from agentcompass.models.metric import PRIMARY_OF_KIND, MetricReport, MetricSeries

_AT_FULL_K = frozenset({"native", "avg"})
_BINARY_ONLY = frozenset({"pass", "all"})
_BUILT_IN = _AT_FULL_K | _BINARY_ONLY


def is_ours(series: MetricSeries) -> bool:
    """Return whether the value follows from the categories by one of our formulas."""
    return series.aggregation in AGGREGATIONS


def identity_problems(report: MetricReport) -> Iterator[str]:
    """Yield broken rules of names, roles, kinds and draw sizes."""
    ids = [series.series_id for series in report.series]
    for series_id in sorted({each for each in ids if ids.count(each) > 1}):
        yield f"series {series_id} stands there twice"
    if report.aggregation not in AGGREGATIONS:
        yield f"aggregation {report.aggregation!r} is none of {', '.join(AGGREGATIONS)}"
    yield from _headline_problems(report)
    yield from _metric_problems(report.series)
    for series in report.series:
        for problem in (*_name_problems(series), *_plan_problems(report, series)):
            yield f"{series.series_id}: {problem}"


def planned_problems(
    report: MetricReport, planned: Sequence[SeriesPlan], *, has_own_formula: bool
) -> Iterator[str]:
    """Yield what differs from the frozen contract.

    A benchmark with its own formula may replace the one of a planned series and append others.
    """
    for plan, series in zip_longest(planned, report.series[: len(planned)]):
        if series is None:
            yield f"series {plan.series_id} is not there"
        else:
            yield from _differences(series, plan, None if has_own_formula else report.aggregation)
    for series in report.series[len(planned) :]:
        if not has_own_formula:
            yield f"{series.series_id}: nobody planned this series"
        elif series.role == "headline":
            yield f"{series.series_id}: an appended series cannot be the headline"


def _differences(series: MetricSeries, plan: SeriesPlan, aggregation: str | None) -> Iterator[str]:
    expected: dict[str, object] = {
        "series_id": plan.series_id,
        "kind": plan.spec.kind,
        "role": plan.role,
        "display": plan.display,
        "aggregation": aggregation or series.aggregation,
    }
    for name, value in expected.items():
        found = getattr(series, name)
        if found != value:
            yield f"{plan.series_id}: {name} is {found!r}, the contract says {value!r}"


def _headline_problems(report: MetricReport) -> Iterator[str]:
    headlines = [series for series in report.series if series.role == "headline"]
    if not headlines:
        yield "no series has the role headline"
    for metric_id in sorted({series.metric_id for series in headlines[1:]}):
        if metric_id != headlines[0].metric_id:
            yield f"{metric_id} and {headlines[0].metric_id} are both headline"
    for series in headlines:
        expected = PRIMARY_OF_KIND[series.kind]
        if series.metric_id != expected:
            yield f"{series.series_id}: a {series.kind} headline must be called {expected!r}"


def _metric_problems(every: Sequence[MetricSeries]) -> Iterator[str]:
    first: dict[str, MetricSeries] = {}
    for series in every:
        other = first.setdefault(series.metric_id, series)
        for name in ("kind", "role", "display"):
            if getattr(series, name) != getattr(other, name):
                yield f"{series.series_id}: {name} differs from {other.series_id}"


def _name_problems(series: MetricSeries) -> Iterator[str]:
    name = f"{series.metric_id}.{series.reducer}@{series.k}"
    if series.series_id != name:
        yield f"metric, reducer and k make {name}"
    if series.reducer in _BINARY_ONLY and series.kind != "binary_success":
        yield f"reducer {series.reducer!r} needs a binary metric"


def _plan_problems(report: MetricReport, series: MetricSeries) -> Iterator[str]:
    if series.k > report.k:
        yield f"k={series.k} exceeds the plan's k={report.k}"
    if series.reducer in _AT_FULL_K and series.k != report.k:
        yield f"reducer {series.reducer!r} uses all {report.k} attempts, not {series.k}"
    if is_ours(series) and series.reducer in _BUILT_IN:
        if (series.reducer == "native") != (report.k == 1):
            yield f"reducer {series.reducer!r} does not belong to a plan with k={report.k}"
        is_pass = (series.reducer, series.k, series.role) == ("pass", report.k, "headline")
        if report.strategy == "pass" and report.k > 1 and not is_pass:
            yield "strategy 'pass' reports only the primary pass series"
    if is_ours(series) and series.aggregation != report.aggregation:
        yield f"aggregation {series.aggregation!r} is not the report's"
