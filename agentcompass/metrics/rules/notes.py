"""What we add under `extra`: well formed, and in agreement with the numbers beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isclose, sqrt

from pydantic import ValidationError

from agentcompass.metrics.extras import bounds, category_uncertainty, partial_note, uncertainty
from agentcompass.metrics.failures import (
    ATTEMPT_MISSING,
    MAX_CAUSES,
    MAX_EXAMPLES,
    OBSERVATION_MISSING,
    FailureCause,
    failure_table,
    rank,
)
from agentcompass.metrics.formula.aggregate import Formula
from agentcompass.metrics.formula.uncertainty import Scale, Uncertainty, combine_shares, interval
from agentcompass.metrics.per_task.series import SeriesPlan
from agentcompass.metrics.rules.arithmetic import bounds_problems
from agentcompass.metrics.rules.counts import Valued, printed
from agentcompass.metrics.rules.identity import is_ours
from agentcompass.models.metric import MetricReport, MetricSeries

_TOLERANCE = 1e-9


def report_note_problems(report: MetricReport) -> Iterator[str]:
    """Yield what is wrong under `extra` of the report."""
    yield from _malformed(lambda: partial_note(report), "extra.partial")
    broken = list(_malformed(lambda: failure_table(report), "extra.failures"))
    yield from broken
    table = None if broken else failure_table(report)
    if table is not None:
        if list(table.causes) != sorted(table.causes, key=rank):
            yield "extra.failures: the causes are not in order"
        if len({(cause.phase, cause.code) for cause in table.causes}) != len(table.causes):
            yield "extra.failures: a cause stands there twice"
        if table.omitted and len(table.causes) != MAX_CAUSES:
            yield f"extra.failures: {table.omitted} omitted from a list that was not cut"
        for cause in table.causes:
            for problem in _cause_problems(report, cause):
                yield f"extra.failures: {cause.code}: {problem}"


def series_note_problems(
    report: MetricReport, series: MetricSeries, formula: Formula | None, plan: SeriesPlan | None
) -> Iterator[str]:
    """Yield what is wrong under `extra` of one series."""
    notes: dict[str, Callable[[], object]] = {
        "extra.bounds": lambda: bounds(series),
        "extra.uncertainty": lambda: uncertainty(series),
        "extra.category_uncertainty": lambda: category_uncertainty(series),
    }
    broken = [problem for name, read in notes.items() for problem in _malformed(read, name)]
    yield from broken
    if broken:
        return
    yield from bounds_problems(series, formula, plan.bounds if plan is not None else None)
    found = uncertainty(series)
    if found is not None:
        yield from _plausible(found, series, "uncertainty")
        scale = plan.scale(report.k) if plan is not None else None
        if is_ours(series) and scale is not None:
            yield from _uncertainty_problems(series, found, scale)


def _malformed(read: Callable[[], object], name: str) -> Iterator[str]:
    try:
        read()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, (name, *first["loc"])))
        yield f"{where}: {first['msg']}"


def _cause_problems(report: MetricReport, cause: FailureCause) -> Iterator[str]:
    counts = report.series[0].counts
    if cause.phase is None and cause.code != ATTEMPT_MISSING:
        yield "has no phase"
    if cause.severity is None and cause.code not in {ATTEMPT_MISSING, OBSERVATION_MISSING}:
        yield "has no severity"
    if not cause.tasks <= cause.attempts <= cause.tasks * report.k:
        yield f"{cause.attempts} attempts in {cause.tasks} tasks with k={report.k}"
    most = counts.total if cause.severity is None else counts.error
    if cause.tasks > most:
        yield f"{cause.tasks} tasks of {most}"
    if len(cause.examples) != min(cause.tasks, MAX_EXAMPLES):
        yield f"{len(cause.examples)} examples of {cause.tasks} tasks"


def _plausible(found: Uncertainty, part: Valued, name: str) -> Iterator[str]:
    value = printed(part)
    if found.n != part.counts.evaluated:
        yield f"{name}: n is {found.n}, {part.counts.evaluated} tasks are evaluated"
    if value is None:
        if found.ci95 is not None or found.stderr is not None:
            yield f"{name}: there is no value to be uncertain about"
    elif found.ci95 is not None:
        low, high = found.ci95
        slack = _TOLERANCE * max(abs(low), abs(high))
        if not low - slack <= value <= high + slack:
            yield f"{name}: {value} is not between {low} and {high}"


def _uncertainty_problems(series: MetricSeries, found: Uncertainty, scale: Scale) -> Iterator[str]:
    by_category = category_uncertainty(series)
    if by_category is None or set(by_category) != set(series.categories):
        yield "category_uncertainty is not one of each category"
        return
    for name, part in series.categories.items():
        label = f"category_uncertainty {name!r}"
        yield from _plausible(by_category[name], part, label)
        yield from _follows(by_category[name], part, scale, label)
    if series.aggregation == "micro_weighted":
        yield from _follows(found, series, scale, "uncertainty")
        return
    weights = {name: part.aggregation_weight or 0.0 for name, part in series.categories.items()}
    means = {name: printed(part) for name, part in series.categories.items()}
    expected = combine_shares(weights, means, by_category)
    yield from _differences(found, expected, "uncertainty")


def _follows(found: Uncertainty, part: Valued, scale: Scale, name: str) -> Iterator[str]:
    """Compare with what follows from value and standard error; only the latter of a mean is free."""
    value, n, stderr = printed(part), part.counts.evaluated, found.stderr
    if value is None or n == 0 or (scale.is_binary and not 0.0 <= value <= 1.0):
        return  # told already, by the rules of counts and of ranges
    if scale.is_indicator:
        stderr = sqrt(value * (1 - value) / (n - 1)) if n > 1 else None
    if stderr is not None and n < 2:
        yield f"{name}: one task has no standard error"
        return
    limits = interval(value, stderr, n, scale)
    expected = Uncertainty(stderr=stderr, ci95=limits, method=scale.method, n=n)
    yield from _differences(found, expected, name)


def _differences(found: Uncertainty, expected: Uncertainty, name: str) -> Iterator[str]:
    if found.method != expected.method:
        yield f"{name}: method is {found.method!r}, not {expected.method!r}"
    if not _close(_numbers(found), _numbers(expected)):
        yield f"{name}: {_numbers(found)} does not follow, expected {_numbers(expected)}"


def _numbers(of: Uncertainty) -> tuple[float | None, ...]:
    return (of.stderr, *(of.ci95 or (None, None)))


def _close(found: tuple[float | None, ...], expected: tuple[float | None, ...]) -> bool:
    largest = max((abs(number) for number in expected if number is not None), default=0.0)
    return all(
        a is b
        if a is None or b is None
        else isclose(a, b, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * largest)
        for a, b in zip(found, expected, strict=True)
    )
