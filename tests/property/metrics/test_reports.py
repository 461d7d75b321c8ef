"""Reports of arbitrary runs: identities, order, round trip, and what a corruption costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from agentcompass.metrics.extras import bounds
from agentcompass.metrics.report import build_report
from agentcompass.metrics.rules.counts import printed
from agentcompass.metrics.seal import sealed
from agentcompass.metrics.validate import Expected, ReportInvalid, validate_report
from agentcompass.models.issue import Issue
from agentcompass.models.metric import MetricContract, MetricReport, MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, Observation, TaskOutcomes
from tests.builders import an_issue
from tests.support.metrics import RICH_CONTRACT, RICH_TREE, rich_report

AGGREGATIONS: Final = ("micro_weighted", "category_mean", "category_hierarchy")

issues: Final = st.sampled_from(
    [
        an_issue("warning"),
        an_issue("error"),
        an_issue("error", "evaluate", "evaluate_failed"),
        an_issue("fatal", "setup", "setup_failed"),
    ]
)
finite: Final = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def outcomes(draw: st.DrawFn) -> AttemptOutcome | None:
    if draw(st.integers(0, 7)) == 0:
        return None
    metrics: dict[str, Observation] = {}
    if draw(st.integers(0, 5)):
        metrics["correct"] = draw(st.booleans())
    if draw(st.integers(0, 5)):
        metrics["grade"] = draw(st.floats(0, 10))
    if draw(st.integers(0, 5)):
        metrics["tokens"] = draw(st.integers(-(10**18), 10**18) | finite)
    found: tuple[Issue, ...] = draw(st.just(()) | st.lists(issues, max_size=2).map(tuple))
    return AttemptOutcome(metrics=metrics, issues=found, skipped=draw(st.booleans()))


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[TaskOutcomes], Expected]:
    k = draw(st.integers(1, 4))
    plan = AttemptPlan(k=k, strategy=draw(st.sampled_from(["avg", "pass"])))
    attempts = st.lists(outcomes(), min_size=k, max_size=k)
    tasks = [
        TaskOutcomes(task_id=f"t{number}", category=category, attempts=tuple(each))
        for number, (category, each) in enumerate(
            draw(st.lists(st.tuples(st.sampled_from("abcd"), attempts), max_size=8))
        )
    ]
    aggregation = draw(st.sampled_from(AGGREGATIONS))
    tree = RICH_TREE if aggregation == "category_hierarchy" else None
    return tasks, Expected(RICH_CONTRACT, plan, aggregation, tree, total=len(tasks))


def report_on(tasks: Sequence[TaskOutcomes], of: Expected) -> MetricReport:
    return build_report(
        of.contract,
        of.attempts,
        tasks,
        aggregation=of.aggregation,
        category_hierarchy=of.category_hierarchy,
    )


@given(runs())
def test_every_report_that_we_build_keeps_every_rule(
    run: tuple[list[TaskOutcomes], Expected],
) -> None:
    tasks, expected = run

    report = report_on(tasks, expected)

    validate_report(report, expected)
    validate_report(report)


@given(runs())
def test_the_counts_add_up_and_are_about_the_frozen_list(
    run: tuple[list[TaskOutcomes], Expected],
) -> None:
    tasks, expected = run

    for series in report_on(tasks, expected).series:
        counts = series.counts
        assert counts.total == len(tasks)
        assert counts.evaluated + counts.unavailable + counts.invalidated == counts.total
        assert counts.invalidated <= counts.error <= counts.total
        assert (printed(series) is None) == (counts.evaluated == 0)


@given(runs(), st.randoms())
def test_the_order_of_the_tasks_changes_no_bit(
    run: tuple[list[TaskOutcomes], Expected], random: Random
) -> None:
    tasks, expected = run
    shuffled = list(tasks)
    random.shuffle(shuffled)

    assert report_on(shuffled, expected) == report_on(tasks, expected)


@given(runs())
def test_a_report_is_read_back_byte_equal(run: tuple[list[TaskOutcomes], Expected]) -> None:
    report = report_on(*run)
    text = report.model_dump_json()

    again = MetricReport.model_validate_json(text)

    assert again == report
    assert again.model_dump_json() == text
    json.loads(text, parse_constant=pytest.fail)  # no NaN, no Infinity


@given(runs())
def test_the_value_lies_between_both_readings_of_what_is_missing(
    run: tuple[list[TaskOutcomes], Expected],
) -> None:
    tasks, expected = run
    if expected.aggregation == "category_hierarchy":
        return  # weights by evaluated and by all tasks differ there

    for series in report_on(tasks, expected).series:
        found, value = bounds(series), printed(series)
        if found is not None and found.lower is not None and value is not None:
            assert found.upper is not None
            assert found.lower <= value + 1e-12
            assert value <= found.upper + 1e-12


Path = tuple[str | int, ...]


def is_free(path: Path) -> bool:
    """Return whether no rule can know better: what other numbers do not determine.

    Causes of failures are known from the details only. The spread of shares is raw data, and the
    interval does not always depend on it: where all tasks agree, and where they differ by less
    than independent attempts would.
    """
    is_cause = path[:3] == ("extra", "failures", "causes")
    return is_cause or path[-1] == "stderr"


A_DEAD_TASK: Final = TaskOutcomes(
    task_id="dead",
    category="a",
    attempts=(AttemptOutcome(metrics={}, issues=(an_issue("fatal"),)),) * 4,
)


SMALL_CONTRACT: Final = MetricContract(
    metrics=(
        MetricSpec(
            metric_id="correct",
            kind="binary_success",
            primary=True,
            reducers=("avg", "pass"),
        ),
        MetricSpec(metric_id="grade", kind="scalar", bounds=(0.0, 10.0)),
    )
)


def leaves(value: JsonValue, path: Path = ()) -> Iterator[tuple[Path, JsonValue]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from leaves(child, (*path, index))
    else:
        yield path, value


def corrupted(value: JsonValue) -> list[JsonValue]:
    match value:
        case bool():
            return [not value, None]
        case int():
            return [value + 1, value - 1, None]
        case float():
            return [value + 1e-3, value - 1e-3, None]
        case None:
            return [0.5]
        case _:
            return [f"{value}x", None]


def changed(document: JsonValue, path: Path, value: JsonValue) -> str:
    """Return the text of the document with another leaf, and leave the document as it was."""
    place: JsonValue = document
    for step in path[:-1]:
        place = place[step]  # type: ignore[index]
    original = place[path[-1]]  # type: ignore[index]
    place[path[-1]] = value  # type: ignore[index]
    text = json.dumps(document)
    place[path[-1]] = original  # type: ignore[index]
    return text


def is_accepted(text: str, expected: Expected) -> bool:
    try:
        validate_report(MetricReport.model_validate_json(text), expected)
    except (ValidationError, ReportInvalid):
        return False
    return True


def survivors(report: MetricReport, expected: Expected) -> list[tuple[Path, JsonValue]]:
    """Return the single leaves that can be changed without anybody noticing."""
    document: JsonValue = json.loads(report.model_dump_json())
    assert is_accepted(json.dumps(document), expected)
    return [
        (path, value)
        for path, original in leaves(document)
        for value in corrupted(original)
        if is_accepted(changed(document, path, value), expected)
    ]


@pytest.mark.parametrize(
    ("aggregation", "more"),
    [("micro_weighted", ()), ("category_mean", (A_DEAD_TASK,)), ("category_hierarchy", ())],
    ids=["official", "reference", "tree"],
)
class TestCorruption:
    def test_every_single_field_corruption_is_refused(
        self, aggregation: str, more: tuple[TaskOutcomes, ...]
    ) -> None:
        report, expected = rich_report(aggregation, *more, contract=SMALL_CONTRACT)

        assert survivors(sealed(report), expected) == []

    def test_the_rules_alone_find_whatever_contradicts_something(
        self, aggregation: str, more: tuple[TaskOutcomes, ...]
    ) -> None:
        report, expected = rich_report(aggregation, *more, contract=SMALL_CONTRACT)

        found = survivors(report, expected)

        assert [path for path, _ in found if not is_free(path)] == []
