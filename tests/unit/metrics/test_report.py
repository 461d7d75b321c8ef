"""One report of a run: states, counts, and which value is official."""

from __future__ import annotations

import pytest

from agentcompass.errors import UsageError
from agentcompass.metrics.report import PartialNote, build_report
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, TaskOutcomes
from tests.builders import a_contract, an_issue, an_outcome
from tests.support.metrics import ERROR, FATAL, RIGHT, WRONG, counts, report_of, tasks_of


class TestCounts:
    def test_an_error_without_observation_stays_in_the_denominator(self) -> None:
        headline = report_of(*[RIGHT] * 8, WRONG, ERROR).headline

        assert headline.value == pytest.approx(8 / 9)
        assert headline.counts == counts(10, 9, 1, 1, 0)

    def test_an_error_with_a_valid_observation_is_evaluated_and_counted_as_error(self) -> None:
        scored = an_outcome(an_issue("error"), correct=True)

        headline = report_of(scored, WRONG).headline

        assert headline.value == 0.5
        assert headline.counts == counts(2, 2, 1, 0, 0)

    def test_one_lucky_survivor_is_no_official_score(self) -> None:
        report = report_of(*[FATAL] * 19, RIGHT)

        assert report.evaluation_failed
        assert report.headline.value is None
        assert report.headline.reference_value == 1.0
        assert report.headline.counts == counts(20, 1, 19, 0, 19)

    def test_failed_environments_are_not_honest_zeros(self) -> None:
        report = report_of(*[FATAL] * 34, *[RIGHT] * 4, *[WRONG] * 12)

        assert report.headline.value is None
        assert report.headline.reference_value == 0.25
        assert report.headline.counts == counts(50, 16, 34, 0, 34)

    def test_a_grader_that_always_fails_gives_no_mean(self) -> None:
        report = report_of(*[ERROR] * 5)

        assert not report.evaluation_failed
        assert report.headline.value is None
        assert report.headline.counts == counts(5, 0, 5, 5, 0)

    def test_each_state_has_one_definition(self) -> None:
        scored = an_outcome(an_issue("error"), correct=False)

        headline = report_of(RIGHT, RIGHT, WRONG, scored, ERROR).headline

        assert headline.counts == counts(5, 4, 2, 1, 0)

    def test_a_merely_missing_attempt_is_no_error(self) -> None:
        assert report_of(RIGHT, None).headline.counts == counts(2, 1, 0, 1, 0)

    def test_warnings_change_nothing(self) -> None:
        warned = an_outcome(an_issue("warning"), correct=True)

        assert report_of(warned) == report_of(RIGHT)

    def test_a_fatal_in_any_attempt_invalidates_the_task_in_all_series(self) -> None:
        report = report_of((RIGHT, FATAL), (RIGHT, RIGHT))

        assert [s.counts.invalidated for s in report.series] == [1, 1]
        assert [s.reference_value for s in report.series] == [1.0, 1.0]

    def test_no_task_at_all_gives_nulls_and_zero_counts(self) -> None:
        report = build_report(a_contract(), AttemptPlan(), [])

        assert report.headline.value is None
        assert report.headline.counts == counts(0, 0, 0, 0, 0)


class TestAttempts:
    def test_avg_needs_all_and_pass_needs_one_success(self) -> None:
        avg, passed = report_of((RIGHT, None), (RIGHT, WRONG), (WRONG, None)).series

        assert (avg.value, avg.counts.evaluated) == (0.5, 1)
        assert (passed.value, passed.counts.evaluated) == (1.0, 2)

    def test_three_failures_and_a_missing_attempt_are_no_verdict(self) -> None:
        report = report_of((WRONG, WRONG, WRONG, None))

        assert [s.counts.unavailable for s in report.series] == [1, 1]

    def test_strategy_pass_counts_nothing_after_the_first_success(self) -> None:
        report = report_of((WRONG, RIGHT, FATAL), (WRONG, WRONG, WRONG), strategy="pass")

        assert [s.series_id for s in report.series] == ["correct.pass@3"]
        assert report.headline.value == 0.5
        assert report.headline.counts == counts(2, 2, 0, 0, 0)

    def test_strategy_pass_counts_what_failed_before_the_success(self) -> None:
        report = report_of((ERROR, RIGHT, None), strategy="pass")

        assert report.headline.counts == counts(1, 1, 1, 0, 0)

    def test_a_skipped_attempt_is_neither_error_nor_missing(self) -> None:
        report = report_of((RIGHT, an_outcome(skipped=True)), strategy="pass")

        assert report.headline.value == 1.0
        assert report.headline.counts == counts(1, 1, 0, 0, 0)

    def test_a_short_tuple_of_another_writer_counts_as_missing(self) -> None:
        tasks = [TaskOutcomes(task_id="t", category="c", attempts=(RIGHT,))]

        report = build_report(a_contract(), AttemptPlan(k=2), tasks)

        assert [s.counts.unavailable for s in report.series] == [1, 0]

    def test_more_attempts_than_planned_are_refused(self) -> None:
        tasks = tasks_of([(RIGHT, RIGHT)])

        with pytest.raises(ValueError, match="'t0' has 2 attempts, the plan has 1"):
            build_report(a_contract(), AttemptPlan(k=1), tasks)


class TestSeries:
    def test_one_attempt_gives_native_series_only(self) -> None:
        contract = a_contract("binary_success", MetricSpec(metric_id="tool_calls", kind="scalar"))

        report = report_of(an_outcome(correct=True, tool_calls=3), contract=contract)

        assert [(s.series_id, s.role, s.value) for s in report.series] == [
            ("correct.native@1", "headline", 1.0),
            ("tool_calls.native@1", "auxiliary", 3.0),
        ]
        assert report.series[1].display.label == "Tool calls"

    def test_several_attempts_give_every_declared_series(self) -> None:
        contract = a_contract("binary_success", MetricSpec(metric_id="cost", kind="scalar"))
        attempts = (an_outcome(correct=True, cost=1.0), an_outcome(correct=False, cost=4.0))

        report = report_of(attempts, contract=contract)

        assert [(s.series_id, s.role, s.value) for s in report.series] == [
            ("correct.avg@2", "headline", 0.5),
            ("correct.pass@2", "headline", 1.0),
            ("cost.avg@2", "auxiliary", 2.5),
        ]

    @pytest.mark.parametrize("value", [1, 1.0, 0])
    def test_a_number_is_no_success(self, value: float) -> None:
        assert report_of(an_outcome(correct=value)).headline.counts.unavailable == 1

    @pytest.mark.parametrize("value", [True, 10**400])
    def test_what_is_no_finite_number_is_no_score(self, value: float) -> None:
        report = report_of(an_outcome(score=value), contract=a_contract("scalar"))

        assert report.headline.counts.unavailable == 1

    def test_nan_does_not_poison_the_mean(self) -> None:
        poisoned = AttemptOutcome.model_construct(metrics={"score": float("nan")})
        nine = [an_outcome(score=1.0)] * 9

        headline = report_of(*nine, poisoned_task(poisoned), contract=a_contract("scalar")).headline

        assert headline.value == 1.0
        assert headline.counts == counts(10, 9, 0, 1, 0)

    def test_the_mean_of_huge_numbers_is_finite(self) -> None:
        huge = an_outcome(score=1.7e308)

        assert report_of(huge, huge, contract=a_contract("scalar")).headline.value == 1.7e308


def poisoned_task(outcome: AttemptOutcome) -> AttemptOutcome:
    """Return an outcome that another writer's reader let through unchecked."""
    return outcome.model_copy(update={"issues": (), "skipped": False})


class TestPlan:
    def test_a_scalar_primary_has_no_pass_strategy(self) -> None:
        with pytest.raises(UsageError, match=r"'pass' with k=2 has no series for .*'score'"):
            build_report(a_contract("scalar"), AttemptPlan(k=2, strategy="pass"), [])

    def test_an_unknown_strategy_lists_the_known_ones(self) -> None:
        with pytest.raises(UsageError, match="known: avg, pass"):
            build_report(a_contract(), AttemptPlan(k=2, strategy="best"), [])

    def test_an_unknown_reducer_names_its_metric(self) -> None:
        spec = MetricSpec(
            metric_id="correct", kind="binary_success", primary=True, reducers=("mx",)
        )

        with pytest.raises(UsageError, match="metric 'correct'"):
            build_report(MetricContract(metrics=(spec,)), AttemptPlan(), [])

    def test_a_series_declared_twice_is_refused(self) -> None:
        spec = MetricSpec(
            metric_id="correct", kind="binary_success", primary=True, reducers=("pass@j", "pass@2")
        )

        with pytest.raises(UsageError, match=r"correct\.pass@2 more than once"):
            build_report(MetricContract(metrics=(spec,)), AttemptPlan(k=4), [])


def test_a_partial_report_says_so() -> None:
    note = PartialNote(status="cancelled", missing=4)
    tasks = tasks_of([(RIGHT,)] * 6 + [(None,)] * 4)

    report = build_report(a_contract(), AttemptPlan(), tasks, partial=note)

    assert report.extra["partial"] == {"status": "cancelled", "missing": 4}
    assert report.headline.counts == counts(10, 6, 0, 4, 0)
