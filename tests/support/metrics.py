"""Outcomes and runs for the tests of `agentcompass.metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from pydantic import JsonValue

from agentcompass.metrics.report import build_report
from agentcompass.metrics.validate import Expected, ReportInvalid, validate_report
from agentcompass.models.metric import Counts, MetricContract, MetricReport, MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, TaskOutcomes
from tests.builders import a_contract, an_issue, an_outcome

Attempts = tuple[AttemptOutcome | None, ...]

RIGHT: Final = an_outcome(correct=True)
WRONG: Final = an_outcome(correct=False)
ERROR: Final = an_outcome(an_issue("error", "evaluate", "evaluate_failed"))
FATAL: Final = an_outcome(an_issue("fatal", "setup", "setup_failed"))

RICH_CONTRACT: Final = MetricContract(
    metrics=(
        MetricSpec(
            metric_id="correct",
            kind="binary_success",
            primary=True,
            reducers=("native", "avg", "pass", "all", "pass@j", "all@2"),
        ),
        MetricSpec(metric_id="grade", kind="scalar", bounds=(0.0, 10.0)),
        MetricSpec(metric_id="tokens", kind="scalar"),
    )
)
RICH_TREE: Final[JsonValue] = {
    "type": "weighted",
    "weights": {"code": 2, "c": 1, "later": 0.5},
    "children": {
        "code": {"type": "weighted_by_count", "children": ["a", "b"]},
        "c": {"type": "leaf"},
        "later": {"type": "unweighted", "children": ["d", "nobody"]},
    },
}


def counts(total: int, evaluated: int, error: int, unavailable: int, invalidated: int) -> Counts:
    return Counts(
        total=total,
        evaluated=evaluated,
        error=error,
        unavailable=unavailable,
        invalidated=invalidated,
    )


def tasks_of(attempts: Iterable[Attempts], category: str = "c") -> list[TaskOutcomes]:
    return [
        TaskOutcomes(task_id=f"t{number}", category=category, attempts=each)
        for number, each in enumerate(attempts)
    ]


def report_of(
    *tasks: AttemptOutcome | Attempts | None,
    strategy: str = "avg",
    contract: MetricContract | None = None,
) -> MetricReport:
    """Return the valid report of tasks in one category; a tuple is a task with several attempts."""
    attempts = [task if isinstance(task, tuple) else (task,) for task in tasks]
    plan = AttemptPlan(k=len(attempts[0]), strategy=strategy)
    report = build_report(contract or a_contract(), plan, tasks_of(attempts))
    validate_report(report, Expected(contract or a_contract(), plan, total=len(attempts)))
    return report


def rich_outcome(random: Random) -> AttemptOutcome | None:
    """Return any kind of outcome under `RICH_CONTRACT`, but a FATAL one."""
    correct, grade = random.random() < 0.6, random.uniform(0.0, 10.0)
    scored = an_outcome(correct=correct, grade=grade, tokens=random.randrange(10_000))
    match random.randrange(12):
        case 0:
            return None
        case 1:
            return ERROR
        case 2:
            return an_outcome()
        case 3:
            return scored.model_copy(update={"issues": (an_issue("error"),)})
        case _:
            return scored


def rich_tasks(size: int = 60, k: int = 4, seed: int = 1) -> list[TaskOutcomes]:
    random = Random(seed)
    return [
        TaskOutcomes(
            task_id=f"t{number}",
            category="abcd"[number % 4],
            attempts=tuple(rich_outcome(random) for _ in range(k)),
        )
        for number in range(size)
    ]


def rich_report(
    aggregation: str = "micro_weighted",
    *more: TaskOutcomes,
    k: int = 4,
    contract: MetricContract = RICH_CONTRACT,
) -> tuple[MetricReport, Expected]:
    """Return a report with every kind of content, and what it has to be."""
    tasks = [*rich_tasks(k=k), *more]
    expected = Expected(
        contract=contract,
        attempts=AttemptPlan(k=k),
        aggregation=aggregation,
        category_hierarchy=RICH_TREE if aggregation == "category_hierarchy" else None,
        total=len(tasks),
        has_own_formula=False,
    )
    report = build_report(
        expected.contract,
        expected.attempts,
        tasks,
        aggregation=aggregation,
        category_hierarchy=expected.category_hierarchy,
    )
    return report, expected


def problems_of(report: MetricReport, expected: Expected | None = None) -> tuple[str, ...]:
    try:
        validate_report(report, expected)
    except ReportInvalid as error:
        return error.problems
    return ()


def broken(report: MetricReport, position: int = 0, **fields: object) -> MetricReport:
    """Return the report with other fields in one series."""
    series = list(report.series)
    series[position] = series[position].model_copy(update=fields)
    return report.model_copy(update={"series": tuple(series)})


def with_category(report: MetricReport, name: str, **fields: object) -> MetricReport:
    categories = dict(report.headline.categories)
    categories[name] = categories[name].model_copy(update=fields)
    return broken(report, categories=categories)


def with_node(report: MetricReport, path: str, **fields: object) -> MetricReport:
    hierarchy = dict(report.headline.hierarchy)
    hierarchy[path] = hierarchy[path].model_copy(update=fields)
    return broken(report, hierarchy=hierarchy)


def with_note(report: MetricReport, key: str, note: JsonValue) -> MetricReport:
    return broken(report, extra={**report.headline.extra, key: note})
