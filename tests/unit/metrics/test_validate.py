"""Every rule of a report, on write and on read."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest

from agentcompass.metrics.report import build_report
from agentcompass.metrics.text.summary import SummaryContext, render_terminal
from agentcompass.metrics.validate import Expected, ReportInvalid, validate_report
from agentcompass.models.metric import CategoryValue, MetricReport
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import TaskOutcomes
from tests.builders import a_contract
from tests.support.metrics import (
    ERROR,
    FATAL,
    RIGHT,
    WRONG,
    broken,
    counts,
    problems_of,
    report_of,
    rich_report,
    tasks_of,
    with_category,
    with_node,
    with_note,
)

CONTEXT = SummaryContext(run_id="run-1")
A_FATAL_TASK = TaskOutcomes(task_id="dead", category="a", attempts=(FATAL,) * 4)
AGGREGATIONS = ("micro_weighted", "category_mean", "category_hierarchy")


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("more", [(), (A_FATAL_TASK,)], ids=["official", "reference"])
class TestSound:
    def test_what_we_compute_breaks_no_rule(
        self, aggregation: str, more: tuple[TaskOutcomes, ...]
    ) -> None:
        report, expected = rich_report(aggregation, *more)

        assert problems_of(report) == ()
        assert problems_of(report, expected) == ()

    def test_a_report_is_read_back_equal_and_byte_equal(
        self, aggregation: str, more: tuple[TaskOutcomes, ...]
    ) -> None:
        report, expected = rich_report(aggregation, *more)

        again = MetricReport.model_validate_json(report.model_dump_json())

        assert again == report
        assert again.model_dump_json() == report.model_dump_json()
        assert problems_of(again, expected) == ()

    def test_a_writer_may_sort_its_keys(
        self, aggregation: str, more: tuple[TaskOutcomes, ...]
    ) -> None:
        report, expected = rich_report(aggregation, *more)
        text = json.dumps(json.loads(report.model_dump_json()), sort_keys=True)

        again = MetricReport.model_validate_json(text)

        assert again == report
        assert problems_of(again, expected) == ()
        assert render_terminal(again, CONTEXT) == render_terminal(report, CONTEXT)


REPORT = report_of((RIGHT, RIGHT), (RIGHT, WRONG), (WRONG, ERROR))

Break = Callable[[MetricReport], MetricReport]

BROKEN: list[tuple[str, Break, str]] = [
    ("value", lambda r: broken(r, value=0.9), "value 0.9 does not follow"),
    ("no value", lambda r: broken(r, value=None), "has evaluated tasks but no value"),
    ("NaN", lambda r: broken(r, value=float("nan")), "series.0.value: Input should be a finite"),
    ("reference", lambda r: broken(r, reference_value=0.5), "has a reference value although"),
    ("id", lambda r: broken(r, series_id="correct.avg@3"), "metric, reducer and k make"),
    ("kind", lambda r: broken(r, kind="scalar"), "a scalar headline must be called 'score'"),
    ("role", lambda r: broken(r, role="auxiliary"), "role differs from"),
    ("large k", lambda r: broken(r, k=3), "k=3 exceeds the plan's k=2"),
    ("small k", lambda r: broken(r, k=1), "uses all 2 attempts, not 1"),
    ("native", lambda r: broken(r, reducer="native"), "does not belong to a plan with k=2"),
    ("aggregation", lambda r: broken(r, aggregation="category_mean"), "is not the report's"),
    ("own formula", lambda r: r.model_copy(update={"aggregation": "own"}), "is none of"),
    ("twice", lambda r: r.model_copy(update={"series": r.series * 2}), "stands there twice"),
    (
        "strategy",
        lambda r: r.model_copy(update={"strategy": "pass"}),
        "strategy 'pass' reports only the primary pass series",
    ),
    (
        "failed",
        lambda r: r.model_copy(update={"evaluation_failed": True}),
        "evaluation_failed is True, invalidated is 0",
    ),
    ("total", lambda r: broken(r, counts=counts(4, 2, 1, 2, 0)), "do not add up"),
    ("error", lambda r: broken(r, counts=counts(3, 2, 2, 1, 0)), "error differs from"),
    ("category", lambda r: with_category(r, "c", value=0.1), "does not follow from"),
    ("weight", lambda r: with_category(r, "c", aggregation_weight=7.0), "weight is 7.0, not 2.0"),
    ("range", lambda r: with_category(r, "c", value=1.5), "1.5 is not between 0 and 1"),
    ("no category", lambda r: broken(r, categories={}), "do not add up"),
    ("node", lambda r: broken(r, hierarchy=r.headline.categories), "a hierarchy belongs to"),
    ("bounds", lambda r: with_note(r, "bounds", {"lower": 0.5}), "extra.bounds.upper: Field"),
    (
        "bounds n",
        lambda r: with_note(r, "bounds", {"lower": 0.5, "upper": 2.5 / 3, "n": 2}),
        "bounds: n is 2, the total is 3",
    ),
    (
        "lower",
        lambda r: with_note(r, "bounds", {"lower": 0.4, "upper": 2.5 / 3, "n": 3}),
        "bounds: lower is 0.4, not 0.5",
    ),
    (
        "order",
        lambda r: with_note(r, "bounds", {"lower": 0.9, "upper": 0.8, "n": 3}),
        "bounds: lower exceeds upper",
    ),
    (
        "null",
        lambda r: with_note(r, "bounds", {"lower": None, "upper": None, "n": 3}),
        "bounds: null belongs to a series without tasks",
    ),
    ("partial", lambda r: r.model_copy(update={"extra": {"partial": {}}}), "extra.partial.status"),
    (
        "failures",
        lambda r: r.model_copy(update={"extra": {"failures": {"causes": []}}}),
        "extra.failures.causes",
    ),
]


@pytest.mark.parametrize(
    ("break_it", "problem"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN]
)
def test_a_broken_rule_is_named(break_it: Break, problem: str) -> None:
    assert any(problem in found for found in problems_of(break_it(REPORT)))


def test_every_broken_rule_is_listed_and_the_message_stays_short() -> None:
    report = broken(broken(REPORT, 0, value=0.9, k=9), 1, value=0.1)

    with pytest.raises(ReportInvalid) as caught:
        validate_report(report)

    assert len(caught.value.problems) > 5
    assert str(caught.value).count("\n") == 4
    assert f"and {len(caught.value.problems) - 3} more" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_one_broken_rule_is_told_in_the_singular() -> None:
    assert str(ReportInvalid(["x"])) == "metric report breaks 1 rule\n  x"


class TestFatal:
    report = report_of((RIGHT, RIGHT), (FATAL, WRONG))

    def test_no_official_value_beside_an_invalidated_task(self) -> None:
        found = problems_of(with_category(self.report, "c", value=1.0, reference_value=None))

        assert any("category 'c' has an official value although" in each for each in found)

    def test_a_value_needs_an_evaluated_task(self) -> None:
        report = report_of(ERROR, ERROR)

        found = problems_of(broken(report, value=0.0))

        assert "correct.native@1: has a value without an evaluated task" in found


class TestTree:
    report, expected = rich_report("category_hierarchy")

    @pytest.mark.parametrize(
        ("path", "fields", "problem"),
        [
            ("overall", {"value": 0.1}, "node 'overall': value is 0.1"),
            ("overall/code", {"value": 0.1}, "node 'overall/code': value is 0.1"),
            ("overall/code", {"aggregation_weight": 0.1}, "node 'overall/code': weight is 0.1"),
            ("overall/code/a", {"counts": counts(9, 9, 0, 0, 0)}, "the counts are not those"),
        ],
    )
    def test_each_node_follows_from_the_configuration(
        self, path: str, fields: dict[str, object], problem: str
    ) -> None:
        found = problems_of(with_node(self.report, path, **fields), self.expected)

        assert any(problem in each for each in found)

    def test_a_missing_node_is_named(self) -> None:
        hierarchy = dict(self.report.headline.hierarchy)
        del hierarchy["overall/c"]

        found = problems_of(broken(self.report, hierarchy=hierarchy), self.expected)

        assert any("the nodes are" in each for each in found)

    @pytest.mark.parametrize(
        ("path", "fields", "problem"),
        [
            ("overall", {"value": 0.1}, "node 'overall' is not the series"),
            ("overall/code/a", {"counts": counts(9, 9, 0, 0, 0)}, "not those of its children"),
        ],
    )
    def test_without_the_configuration_counts_and_root_are_checked(
        self, path: str, fields: dict[str, object], problem: str
    ) -> None:
        found = problems_of(with_node(self.report, path, **fields))

        assert any(problem in each for each in found)

    @pytest.mark.parametrize(
        ("gone", "problem"),
        [("overall", "has no node 'overall'"), ("overall/code", "'overall/code/a' has no parent")],
    )
    def test_without_the_configuration_a_hole_is_found(self, gone: str, problem: str) -> None:
        kept = {path: node for path, node in self.report.headline.hierarchy.items() if path != gone}

        found = problems_of(broken(self.report, hierarchy=kept))

        assert any(problem in each for each in found)


class TestContract:
    report, expected = rich_report()

    def test_another_plan_is_named(self) -> None:
        found = problems_of(self.report, expected_with(self.expected, AttemptPlan(k=5)))

        assert "k is 4, the run has 5" in found

    def test_another_total_is_named(self) -> None:
        other = Expected(self.expected.contract, self.expected.attempts, total=61)

        assert "total is 60, the run has 61 tasks" in problems_of(self.report, other)

    def test_a_planned_series_must_be_there(self) -> None:
        report = self.report.model_copy(update={"series": self.report.series[:-1]})

        assert "series tokens.avg@4 is not there" in problems_of(report, self.expected)

    def test_another_label_than_declared_is_named(self) -> None:
        display = self.report.headline.display.model_copy(update={"label": "Wrong"})

        found = problems_of(broken(self.report, display=display), self.expected)

        assert any("correct.avg@4: display is" in each for each in found)

    def test_an_appended_series_cannot_be_the_headline(self) -> None:
        plan = AttemptPlan(k=4)
        small = build_report(a_contract(), plan, tasks_of([(RIGHT,) * 4]))
        extra = small.series[0].model_copy(update={"series_id": "correct.own@4", "reducer": "own"})
        report = small.model_copy(update={"series": (*small.series, extra)})

        found = problems_of(report, Expected(a_contract(), plan))

        assert "correct.own@4: an appended series cannot be the headline" in found

    def test_a_series_that_nobody_planned_is_refused(self) -> None:
        other = Expected(a_contract(), self.expected.attempts, has_own_formula=False)

        assert "grade.avg@4: nobody planned this series" in problems_of(self.report, other)

    def test_an_own_formula_must_have_been_announced(self) -> None:
        own = broken(self.report, aggregation="own", extra={})

        found = problems_of(own, self.expected)
        announced = problems_of(own, replace(self.expected, has_own_formula=True))

        assert any("aggregation is 'own', the contract says" in each for each in found)
        assert announced == ()

    def test_two_headline_metrics_are_one_too_many(self) -> None:
        report = broken(self.report, len(self.report.series) - 1, role="headline")

        assert "tokens and correct are both headline" in problems_of(report)

    def test_a_report_without_a_headline_is_refused(self) -> None:
        (only,) = report_of(RIGHT).series
        report = report_of(RIGHT).model_copy(
            update={"series": (only.model_copy(update={"role": "auxiliary"}),)}
        )

        assert "no series has the role headline" in problems_of(report)

    def test_a_binary_reducer_of_a_scalar_is_refused(self) -> None:
        position = len(self.report.series) - 1
        report = broken(self.report, position, reducer="pass", series_id="tokens.pass@4")

        assert "tokens.pass@4: reducer 'pass' needs a binary metric" in problems_of(report)


def expected_with(expected: Expected, attempts: AttemptPlan) -> Expected:
    return Expected(expected.contract, attempts, total=expected.total)


class TestOtherWriters:
    def test_a_report_without_our_notes_is_accepted(self) -> None:
        report = REPORT.model_copy(
            update={
                "extra": {},
                "series": tuple(s.model_copy(update={"extra": {}}) for s in REPORT.series),
            }
        )

        assert problems_of(report) == ()

    def test_an_own_formula_needs_no_categories(self) -> None:
        own = broken(REPORT, aggregation="own", categories={}, value=0.123, extra={})
        missing = broken(own, counts=counts(3, 0, 1, 3, 0), value=None)

        assert problems_of(own) == ()
        assert problems_of(missing) == ()

    def test_the_categories_of_an_own_formula_still_add_up(self) -> None:
        part = CategoryValue(value=0.5, reference_value=None, counts=counts(1, 1, 0, 0, 0))
        report = broken(REPORT, aggregation="own", categories={"c": part}, extra={})

        assert any("do not add up" in each for each in problems_of(report))
