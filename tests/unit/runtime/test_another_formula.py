"""A report by another formula than the frozen one: recorded, kept, and gone with other results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcompass.errors import UsageError
from agentcompass.metrics.extras import partial_note
from agentcompass.runtime.finalize import Finalized, Wanted, finalize
from agentcompass.store.check import check_run
from agentcompass.store.report import Override
from tests.builders import a_result
from tests.support.measured import a_measured_run, finalized
from tests.support.metrics import RIGHT, WRONG
from tests.support.store_runs import begin, decide, execute, publish

OUTCOMES = {"a": (RIGHT,), "b": (RIGHT,), "c": (RIGHT,), "d": (WRONG,)}
CATEGORIES = {"a": "x", "b": "x", "c": "x", "d": "y"}
TREE = {"type": "weighted", "weights": {"x": 1, "y": 3}, "children": ["x", "y"]}
BY_TREE = Override("category_hierarchy", TREE)  # type: ignore[arg-type]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return a_measured_run(tmp_path, OUTCOMES, categories=CATEGORIES)


def by(run_dir: Path, override: Override | None) -> Finalized:
    done = finalize(run_dir, wanted=Wanted(override, is_anew=True, may_be_partial=True))
    assert isinstance(done, Finalized)
    return done


@pytest.mark.parametrize(
    ("override", "value"),
    [(None, 0.75), (Override("category_mean"), 0.5), (BY_TREE, 0.25)],
)
def test_each_formula_gives_its_value(
    run_dir: Path, override: Override | None, value: float
) -> None:
    assert by(run_dir, override).report.headline.value == value
    assert check_run(run_dir) == []


def test_it_is_recorded_beside_the_frozen_one(run_dir: Path) -> None:
    by(run_dir, BY_TREE)

    info = json.loads((run_dir / "run_info.json").read_bytes())
    said = info["metric_artifacts"]
    assert (said["source"], info["aggregation"]) == ("report", "micro_weighted")
    assert said["report"] == {
        "k": 1,
        "strategy": "avg",
        "aggregation": "category_hierarchy",
        "category_hierarchy": TREE,
    }
    assert "not the run's own, which is micro" in (run_dir / "summary.md").read_text()


def test_whoever_completes_the_run_afterwards_leaves_it_as_it_is(run_dir: Path) -> None:
    by(run_dir, BY_TREE)
    names = ("metrics.json", "summary.md", ".covered.json", ".summary.json", "run_info.json")
    before = {name: (run_dir / name).read_bytes() for name in names}

    done = finalized(run_dir)

    assert done.report.headline.value == 0.25
    assert before == {name: (run_dir / name).read_bytes() for name in names}


def test_asking_without_it_brings_the_frozen_formula_back_byte_by_byte(run_dir: Path) -> None:
    finalized(run_dir)
    before = (run_dir / "metrics.json").read_bytes(), (run_dir / "run_info.json").read_bytes()
    by(run_dir, BY_TREE)

    by(run_dir, None)

    after = (run_dir / "metrics.json").read_bytes(), (run_dir / "run_info.json").read_bytes()
    assert before == after


def test_other_results_are_reduced_by_the_frozen_formula(run_dir: Path) -> None:
    by(run_dir, BY_TREE)
    decide(run_dir, "rerun", ("d", 1))
    by_leg = {"leg": 2, "token": "again", "metrics": {"correct": True}}
    view = begin(run_dir, "d", token="again", leg=2, valid_from_leg=2)
    publish(run_dir, view, a_result("d").model_copy(update=by_leg))

    done = finalized(run_dir)

    assert (done.report.aggregation, done.report.headline.value) == ("micro_weighted", 1.0)
    assert done.info.metric_artifacts is not None
    assert done.info.metric_artifacts.source == "evaluation"


def test_a_partial_report_by_another_formula_is_marked_and_replaced_when_the_run_is_over(
    tmp_path: Path,
) -> None:
    left = {**OUTCOMES, "d": (None,)}
    run_dir = a_measured_run(tmp_path, left, categories=CATEGORIES)
    first = by(run_dir, Override("category_mean"))
    execute(run_dir, "d")

    second = finalized(run_dir)

    assert partial_note(first.report) is not None
    assert partial_note(second.report) is None
    assert second.report.aggregation == "micro_weighted"


def test_a_tree_that_does_not_cover_the_categories_is_refused_and_nothing_changes(
    run_dir: Path,
) -> None:
    finalized(run_dir)
    before = (run_dir / "metrics.json").read_bytes()

    with pytest.raises(UsageError, match="no leaf covers the categories 'y'"):
        by(run_dir, Override("category_hierarchy", {"type": "unweighted", "children": ["x"]}))

    assert (run_dir / "metrics.json").read_bytes() == before
