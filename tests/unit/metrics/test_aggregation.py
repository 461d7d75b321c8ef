"""Values of tasks -> one number, with what it covers."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from agentcompass.errors import UsageError
from agentcompass.metrics.extras import bounds
from agentcompass.metrics.per_task.reducers import Reducer
from agentcompass.metrics.per_task.series import SeriesPlan
from agentcompass.metrics.report import build_report, check_plan, with_notes
from agentcompass.metrics.rules.counts import Valued
from agentcompass.models.metric import MetricDisplay, MetricReport
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, TaskOutcomes
from tests.builders import a_contract
from tests.support.metrics import ERROR, FATAL, RIGHT, WRONG, counts, report_of


def report_by(
    aggregation: str, tree: JsonValue = None, **categories: list[AttemptOutcome]
) -> MetricReport:
    tasks = [
        TaskOutcomes(task_id=f"{name}{number}", category=name, attempts=(outcome,))
        for name, outcomes in categories.items()
        for number, outcome in enumerate(outcomes)
    ]
    return build_report(
        a_contract(), AttemptPlan(), tasks, aggregation=aggregation, category_hierarchy=tree
    )


def test_micro_weighted_gives_every_task_the_same_weight() -> None:
    headline = report_by("micro_weighted", a=[RIGHT], b=[WRONG] * 3).headline

    assert headline.value == 0.25
    assert [part.aggregation_weight for part in headline.categories.values()] == [1.0, 3.0]
    assert headline.hierarchy == {}


def test_category_mean_gives_every_category_with_a_value_the_same_weight() -> None:
    headline = report_by("category_mean", a=[RIGHT], b=[WRONG] * 3, c=[ERROR]).headline

    assert headline.value == 0.5
    assert [part.aggregation_weight for part in headline.categories.values()] == [1.0, 1.0, 0.0]
    assert headline.categories["c"].value is None
    assert headline.counts == counts(5, 4, 1, 1, 0)


def test_the_counts_of_a_node_include_children_without_a_value() -> None:
    tree: JsonValue = {"type": "unweighted", "children": ["a", "b"]}

    headline = report_by("category_hierarchy", tree, a=[RIGHT, WRONG], b=[ERROR]).headline

    assert headline.value == 0.5
    assert headline.hierarchy["overall"].counts == counts(3, 2, 1, 1, 0)
    assert headline.hierarchy["overall/b"].value is None


def test_one_fatal_withholds_the_value_of_every_category_and_node() -> None:
    tree: JsonValue = {"type": "unweighted", "children": ["a", "b"]}

    headline = report_by("category_hierarchy", tree, a=[RIGHT], b=[WRONG, FATAL]).headline

    parts: list[Valued] = [headline, *headline.categories.values(), *headline.hierarchy.values()]
    assert [part.value for part in parts] == [None] * 6
    assert [part.reference_value for part in parts] == [0.5, 1.0, 0.0, 0.5, 1.0, 0.0]


def test_categories_come_in_the_order_of_their_names() -> None:
    assert list(report_by("micro_weighted", b=[RIGHT], a=[RIGHT]).headline.categories) == ["a", "b"]


def test_a_category_outside_the_tree_is_refused() -> None:
    tree: JsonValue = {"type": "unweighted", "children": ["a"]}

    with pytest.raises(UsageError, match="no leaf covers the categories 'b'"):
        report_by("category_hierarchy", tree, a=[RIGHT], b=[RIGHT])


class TestCheckPlan:
    def test_it_refuses_before_the_run_what_the_report_would_refuse_after_it(self) -> None:
        tree: JsonValue = {"type": "unweighted", "children": ["a"]}

        with pytest.raises(UsageError, match="no leaf covers"):
            check_plan(
                a_contract(),
                AttemptPlan(),
                ["b"],
                aggregation="category_hierarchy",
                category_hierarchy=tree,
            )

    def test_it_accepts_a_plan_that_fits(self) -> None:
        check_plan(a_contract(), AttemptPlan(k=3, strategy="pass"), ["any"])


class TestBounds:
    def test_both_readings_of_missing_tasks_stand_beside_the_value(self) -> None:
        report = report_of(*[RIGHT] * 13, *[ERROR] * 7)

        found = bounds(report.headline)

        assert report.headline.value == 1.0
        assert found is not None
        assert (found.lower, found.upper, found.n) == (0.65, 1.0, 20)

    def test_they_cover_invalidated_tasks_too(self) -> None:
        found = bounds(report_of(RIGHT, FATAL).headline)

        assert found is not None
        assert (found.lower, found.upper) == (0.5, 1.0)

    def test_a_category_without_any_value_counts_in_them(self) -> None:
        found = bounds(report_by("category_mean", a=[RIGHT], b=[ERROR]).headline)

        assert found is not None
        assert (found.lower, found.upper) == (0.5, 1.0)

    def test_without_bounds_of_the_metric_there_are_none(self) -> None:
        assert bounds(report_of(RIGHT, contract=a_contract("scalar")).headline) is None

    def test_a_reducer_that_leaves_the_bounds_of_its_observations_has_none(self) -> None:
        spec = a_contract().primary
        total = Reducer("total", lambda k: (k,), lambda seen, _: 2.0, keeps_bounds=False)

        plan = SeriesPlan(spec, total, 1)

        assert plan.bounds is None
        assert plan.scale(1).method == "clustered_t"

    def test_without_any_task_they_are_null(self) -> None:
        found = bounds(build_report(a_contract(), AttemptPlan(), []).headline)

        assert found is not None
        assert (found.lower, found.upper, found.n) == (None, None, 0)


def test_a_note_can_be_added() -> None:
    report = with_notes(report_of(RIGHT), denominator="plans and details")

    assert report.extra == {"denominator": "plans and details"}


def test_a_declared_label_is_kept() -> None:
    declared = a_contract().primary.model_copy(update={"display": MetricDisplay(label="Solved")})
    contract = a_contract().model_copy(update={"metrics": (declared,)})

    assert report_of(RIGHT, contract=contract).headline.display.label == "Solved"
