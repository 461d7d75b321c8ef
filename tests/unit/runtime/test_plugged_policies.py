"""Reducers and strategies from plug-ins, from the plan to the report and back; unknown ones too."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentcompass.cli.listing import OTHERS
from agentcompass.errors import UsageError
from agentcompass.metrics.per_task import registry
from agentcompass.metrics.per_task.reducers import REDUCERS
from agentcompass.metrics.per_task.strategies import STRATEGIES
from agentcompass.metrics.report import check_plan
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.runtime.finalize import finalize
from agentcompass.store.check import check_run
from agentcompass.store.report import expected_of, load_report
from agentcompass.store.run_info import load
from tests.builders import an_outcome
from tests.support.measured import a_measured_run, finalized

POINTS = {
    "agentcompass.reducers": EntryPoint("best", "tests.support.policies:BEST", "x"),
    "agentcompass.strategies": EntryPoint("two", "tests.support.policies:TWO", "x"),
}
CONTRACT = MetricContract(
    metrics=(MetricSpec(metric_id="score", kind="scalar", primary=True, reducers=("avg", "best")),)
)
OUTCOMES = {
    "a": (an_outcome(score=0.5), an_outcome(score=1.5)),
    "b": (an_outcome(score=2.5), an_outcome(score=0.5)),
}


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both policies are installed; afterwards nobody remembers them."""
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [POINTS[group]] if group in POINTS else []
    )
    yield
    forget()


def forget() -> None:
    for known, name in ((REDUCERS, "best"), (STRATEGIES, "two")):
        known._items.pop(name, None)


@pytest.mark.usefixtures("plugged")
def test_a_reducer_of_a_plugin_makes_a_series_that_is_read_back(tmp_path: Path) -> None:
    run_dir = a_measured_run(tmp_path, OUTCOMES, metric_contract=CONTRACT)

    report = finalized(run_dir).report

    assert [(series.series_id, series.value) for series in report.series] == [
        ("score.avg@2", 1.25),
        ("score.best@2", 2.0),
    ]
    assert load_report(run_dir, expected_of(load(run_dir))) == report
    assert check_run(run_dir) == []


@pytest.mark.usefixtures("plugged")
def test_a_strategy_of_a_plugin_decides_which_attempts_count(tmp_path: Path) -> None:
    outcomes = {task: (*attempts, an_outcome(score=9.0)) for task, attempts in OUTCOMES.items()}
    best = MetricSpec(metric_id="score", kind="scalar", primary=True, reducers=("best",))
    run_dir = a_measured_run(
        tmp_path, outcomes, strategy="two", metric_contract=MetricContract(metrics=(best,))
    )

    report = finalized(run_dir).report

    assert (report.strategy, report.headline.series_id) == ("two", "score.best@3")
    assert (report.headline.value, report.headline.counts.unavailable) == (None, 2)
    assert "1.5, ·" in (run_dir / "summary.md").read_text(encoding="utf-8")


def test_without_the_plugin_a_plan_is_refused_before_anything_is_reserved() -> None:
    with pytest.raises(UsageError, match=r"unknown reducer 'best'[\s\S]*known: all, all@j, avg"):
        check_plan(CONTRACT, AttemptPlan(k=2), ["c"])
    with pytest.raises(UsageError, match=r"unknown strategy 'two'[\s\S]*known: avg, pass"):
        check_plan(CONTRACT, AttemptPlan(k=2, strategy="two"), ["c"])


@pytest.mark.usefixtures("plugged")
def test_without_the_plugin_a_run_is_not_reported_and_nothing_is_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_measured_run(tmp_path, OUTCOMES, metric_contract=CONTRACT)
    forget()
    monkeypatch.setattr(registry, "entry_points", lambda group: [])

    with pytest.raises(UsageError, match="unknown reducer 'best'"):
        finalize(run_dir)

    assert not (run_dir / "metrics.json").exists()


@pytest.mark.usefixtures("plugged")
def test_installed_policies_are_listed() -> None:
    assert "best" in OTHERS["reducers"]()
    assert "two" in OTHERS["strategies"]()
