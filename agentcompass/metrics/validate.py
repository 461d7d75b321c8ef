"""The rules of a `MetricReport` that its types cannot say; asked on every write and every read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from agentcompass.errors import AgentCompassError, UsageError
from agentcompass.metrics.formula.aggregate import Formula, formula
from agentcompass.metrics.per_task.series import SeriesPlan
from agentcompass.metrics.per_task.strategies import planned_series
from agentcompass.metrics.rules.arithmetic import arithmetic_problems
from agentcompass.metrics.rules.counts import count_problems
from agentcompass.metrics.rules.identity import identity_problems, is_ours, planned_problems
from agentcompass.metrics.rules.notes import report_note_problems, series_note_problems
from agentcompass.metrics.seal import seal_problems
from agentcompass.models.metric import MetricContract, MetricReport
from agentcompass.models.request import AttemptPlan

_SHOWN = 3


class ReportInvalid(AgentCompassError):
    """A report that contradicts itself or its contract; `problems` lists every broken rule."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        shown = [f"  {problem}" for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            shown.append(f"  and {len(self.problems) - _SHOWN} more")
        count = len(self.problems)
        return "\n".join([f"metric report breaks {count} rule{'s' if count > 1 else ''}", *shown])


@dataclass(frozen=True, slots=True)
class Expected:
    """What the run says about its report. Without it a report is held against itself only."""

    contract: MetricContract
    attempts: AttemptPlan
    aggregation: str = "micro_weighted"
    category_hierarchy: JsonValue = None
    total: int | None = None
    """Tasks in the frozen list."""
    has_own_formula: bool = True
    """False if it is known that the benchmark does not override `aggregate_metrics`: then nothing
    may be appended and no formula replaced."""
    is_formula_known: bool = True
    """False if nobody can tell by which formula the report was asked for. Then it is held against the
    one that it names; a hierarchy, whose tree it does not hold, against none."""


def validate_report(report: MetricReport, expected: Expected | None = None) -> None:
    """Raise `ReportInvalid` with every broken rule, if there is one.

    Args:
        report: as computed, as returned by a benchmark, or as read back.
        expected: the frozen contract, plan and formula; give it wherever they are known.
    """
    problems = list(_type_problems(report)) or list(_problems(report, expected))
    if problems:
        raise ReportInvalid(problems)


def _type_problems(report: MetricReport) -> Iterator[str]:
    """Yield wrong types and NaN: a benchmark's own report may be a copy that nobody checked."""
    try:
        MetricReport.model_validate(report.model_dump(warnings=False))
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            yield f"{'.'.join(map(str, detail['loc'])) or 'report'}: {detail['msg']}"


def _problems(report: MetricReport, expected: Expected | None) -> Iterator[str]:
    planned: tuple[SeriesPlan, ...] = ()
    chosen = None if report.aggregation == "category_hierarchy" else _formula(report.aggregation)
    if expected is not None:
        planned = planned_series(expected.contract, expected.attempts)
        if expected.is_formula_known:
            chosen = formula(expected.aggregation, expected.category_hierarchy)
        yield from _request_problems(report, expected)
        yield from planned_problems(report, planned, has_own_formula=expected.has_own_formula)
    yield from seal_problems(report)
    yield from identity_problems(report)
    yield from count_problems(report, expected.total if expected is not None else None)
    yield from report_note_problems(report)
    plans = {plan.series_id: plan for plan in planned}
    for series in report.series:
        if is_ours(series):
            for problem in arithmetic_problems(series, chosen):
                yield f"{series.series_id}: {problem}"
        for problem in series_note_problems(report, series, chosen, plans.get(series.series_id)):
            yield f"{series.series_id}: {problem}"


def _request_problems(report: MetricReport, expected: Expected) -> Iterator[str]:
    aggregation = expected.aggregation if expected.is_formula_known else report.aggregation
    for name, found, wanted in (
        ("k", report.k, expected.attempts.k),
        ("strategy", report.strategy, expected.attempts.strategy),
        ("aggregation", report.aggregation, aggregation),
    ):
        if found != wanted:
            yield f"{name} is {found!r}, the run has {wanted!r}"


def _formula(aggregation: str) -> Formula | None:
    try:
        return formula(aggregation)
    except UsageError:  # reported by name among the rules of identity
        return None
