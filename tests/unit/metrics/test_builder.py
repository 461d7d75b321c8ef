"""What a benchmark's own `aggregate_metrics` is built with."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from agentcompass.metrics.builder import (
    Pair,
    Terms,
    collect,
    filled,
    ratio_of_sums,
    series_like,
    sum_of,
    with_series,
)
from agentcompass.metrics.extras import uncertainty
from agentcompass.metrics.report import build_report
from agentcompass.metrics.validate import Expected, validate_report
from agentcompass.models.metric import MetricReport, MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, AttemptResult, TaskOutcomes
from tests.builders import a_contract, a_result, an_issue

CONTRACT = a_contract(
    "binary_success",
    MetricSpec(metric_id="passed", kind="scalar"),
    MetricSpec(metric_id="tests", kind="scalar"),
)


def detail(task_id: str, passed: float, tests: float, attempt: int = 1) -> AttemptResult:
    metrics = {"correct": passed == tests, "passed": passed, "tests": tests}
    return a_result(task_id, attempt, metrics=metrics)


def failed(task_id: str, attempt: int = 1) -> AttemptResult:
    return a_result(task_id, attempt, metrics={}, issues=[an_issue("fatal")])


def passed_of(attempt: AttemptResult) -> Pair | None:
    if "tests" not in attempt.metrics:
        return None
    return float(attempt.metrics["passed"]), float(attempt.metrics["tests"])


def report_on(
    details: Iterable[AttemptResult], plan: AttemptPlan, tasks: Iterable[str]
) -> MetricReport:
    found = {(d.task_id, d.attempt): d for d in details}
    outcomes = [
        TaskOutcomes(
            task_id=task,
            category="c",
            attempts=tuple(_outcome(found.get((task, n))) for n in range(1, plan.k + 1)),
        )
        for task in tasks
    ]
    return build_report(CONTRACT, plan, outcomes)


def _outcome(result: AttemptResult | None) -> AttemptOutcome | None:
    if result is None:
        return None
    return AttemptOutcome(metrics=result.metrics, issues=result.issues)


def terms_of(
    *details: AttemptResult, plan: AttemptPlan | None = None, tasks: str = "ab"
) -> tuple[Terms, MetricReport]:
    report = report_on(details, plan or AttemptPlan(), tasks)
    return collect(iter(details), report, CONTRACT, passed_of), report


def test_a_ratio_of_sums_weighs_tasks_by_their_size() -> None:
    terms, report = terms_of(detail("a", 1, 1), detail("b", 0, 9))

    result = with_series(report, ratio_of_sums(terms, series_like(report, "share", label="Share")))

    validate_report(result, Expected(CONTRACT, AttemptPlan(), total=2))
    assert result.series[-1].series_id == "share.sum@1"
    assert result.series[-1].value == 0.1
    assert result.headline.value == 0.5


def test_the_error_of_a_ratio_is_that_of_the_linearized_ratio() -> None:
    terms, report = terms_of(detail("a", 1, 2), detail("b", 2, 2))

    found = uncertainty(ratio_of_sums(terms, series_like(report, "share")))

    assert found is not None
    assert found.stderr == pytest.approx((2 * 2 * (0.5**2)) ** 0.5 / 4)


def test_a_sum_leaves_out_what_is_missing_and_says_so() -> None:
    terms, report = terms_of(detail("a", 3, 4))

    series = sum_of(terms, series_like(report, "solved"))

    assert series.value == 3.0
    assert (series.counts.evaluated, series.counts.unavailable) == (1, 1)
    validate_report(with_series(report, series))


def test_a_fatal_withholds_the_benchmarks_own_value_too() -> None:
    terms, report = terms_of(detail("a", 3, 4), failed("b"))

    series = ratio_of_sums(terms, series_like(report, "share"))

    assert (series.value, series.reference_value) == (None, 0.75)
    validate_report(with_series(report, series))


def test_the_headline_can_get_another_formula_and_keeps_its_place() -> None:
    terms, report = terms_of(detail("a", 1, 1), detail("b", 1, 4))

    result = with_series(report, ratio_of_sums(terms, report.headline))

    assert result.headline.value == 0.4
    assert result.headline.aggregation == "ratio_of_sums"
    validate_report(result, Expected(CONTRACT, AttemptPlan(), total=2))


def test_the_interval_of_a_binary_headline_stays_between_0_and_1() -> None:
    terms, report = terms_of(detail("a", 1, 1), detail("b", 1, 9))

    found = uncertainty(ratio_of_sums(terms, report.headline))

    assert found is not None
    assert found.ci95 == (0.0, 1.0)


def test_all_attempts_of_a_task_must_have_terms() -> None:
    plan = AttemptPlan(k=2)
    details = [detail("a", 1, 2, 1), detail("a", 2, 2, 2), detail("b", 1, 2, 1)]

    terms, _ = terms_of(*details, plan=plan)

    assert (list(terms.y), list(terms.x)) == ([3.0], [4.0])
    assert terms.counts.unavailable == 1


def test_under_pass_attempts_after_the_first_success_do_not_count() -> None:
    plan = AttemptPlan(k=2, strategy="pass")
    details = [detail("a", 2, 2, 1), failed("a", 2), detail("b", 0, 2, 1), detail("b", 1, 2, 2)]

    terms, _ = terms_of(*details, plan=plan)

    assert (list(terms.y), list(terms.x)) == ([2.0, 1.0], [2.0, 4.0])


@pytest.mark.parametrize("details", [[], [detail("a", 0, 0)]])
def test_a_ratio_over_nothing_is_null(details: list[AttemptResult]) -> None:
    terms, report = terms_of(*details)

    assert ratio_of_sums(terms, series_like(report, "share")).value is None


def test_a_sum_over_nothing_is_null() -> None:
    terms, report = terms_of()

    assert sum_of(terms, series_like(report, "solved")).value is None


def test_a_sum_beyond_the_range_of_floats_is_null() -> None:
    terms, report = terms_of(detail("a", 1.7e308, 1), detail("b", 1.7e308, 1))

    assert sum_of(terms, series_like(report, "solved")).value is None


def test_an_own_value_that_is_not_finite_is_null() -> None:
    terms, report = terms_of(detail("a", 1, 1))

    series = filled(series_like(report, "own"), terms, float("inf"), formula="own", stderr=1.0)

    assert (series.value, uncertainty(series)) != (float("inf"), None)
    assert series.value is None


def test_an_error_too_large_for_an_interval_gives_none() -> None:
    terms, report = terms_of(detail("a", 1, 1), detail("b", 1, 1))

    series = filled(series_like(report, "own"), terms, 1e308, formula="own", stderr=1e308)

    found = uncertainty(series)
    assert found is not None
    assert found.ci95 is None


def test_a_term_that_is_not_finite_is_refused() -> None:
    report = report_on([detail("a", 1, 1)], AttemptPlan(), "a")

    with pytest.raises(ValueError, match="'a' attempt 1"):
        collect([detail("a", 1, 1)], report, CONTRACT, lambda _: (float("nan"), 1.0))


def test_more_tasks_than_the_report_has_are_refused() -> None:
    report = report_on([detail("a", 1, 1)], AttemptPlan(), "a")

    with pytest.raises(ValueError, match="2 tasks have terms, only 1 can"):
        collect([detail("a", 1, 1), detail("z", 1, 1)], report, CONTRACT, passed_of)
