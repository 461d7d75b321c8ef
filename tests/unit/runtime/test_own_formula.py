"""`aggregate_metrics` on the whole path: loaded, asked, validated, refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentcompass.errors import UsageError
from agentcompass.metrics.extras import partial_note
from agentcompass.models.issue import Issue
from agentcompass.runtime.finalize import Finalized, Wanted, finalize
from agentcompass.runtime.reduce import AggregationFailed
from agentcompass.store import run_info
from agentcompass.store.check import check_run
from tests.builders import a_contract, an_issue, an_outcome
from tests.support.formulas import MODULE
from tests.support.measured import a_measured_run, covers, ended, finalized
from tests.support.store_runs import decide, execute

TESTS = {"a": (9, 10), "b": (1, 30)}
"""Task id -> (tests passed, tests)."""


def a_tested_run(
    folder: Path, benchmark: str, *, skip: Sequence[str] = (), issues: Sequence[Issue] = ()
) -> Path:
    """Return a run whose attempts left tests; `issues` are those of task a."""
    run_dir = a_measured_run(
        folder,
        dict.fromkeys(TESTS, (None,)),
        benchmark=f"{MODULE}:{benchmark}",
        metric_contract=a_contract("scalar"),
        custom_aggregation=True,
    )
    for task, (passed, total) in TESTS.items():
        outcome = an_outcome(*(issues if task == "a" else ()), score=passed / total)
        if task not in skip:
            execute(run_dir, task, 1, ended(task, 1, outcome, ok=passed, of=total))
    return run_dir


@pytest.mark.parametrize("benchmark", ["Ratio", "AsyncRatio"])
def test_the_formula_of_the_benchmark_makes_the_headline(tmp_path: Path, benchmark: str) -> None:
    run_dir = a_tested_run(tmp_path, benchmark)

    report = finalized(run_dir).report

    headline, tests = report.series
    assert (headline.value, headline.aggregation) == (0.25, "ratio_of_sums")
    assert (tests.series_id, tests.value, tests.role) == ("tests.sum@1", 10.0, "auxiliary")
    assert run_info.load(run_dir).status == "completed"
    assert check_run(run_dir) == []
    assert "ratio_of_sums" in (run_dir / "summary.md").read_text().replace("\\", "")


def test_a_fatal_withholds_its_value_too(tmp_path: Path) -> None:
    run_dir = a_tested_run(tmp_path, "Ratio", issues=[an_issue("fatal")])

    headline = finalized(run_dir).report.headline

    assert (headline.value, headline.reference_value) == (None, 1 / 30)
    assert covers(headline.counts) == (2, 1, 0, 1, 1)


@pytest.mark.parametrize("benchmark", ["gone", "no.such.module:Bench"])
def test_without_its_plugin_there_is_no_report_and_the_plugin_is_named(
    tmp_path: Path, benchmark: str
) -> None:
    run_dir = a_tested_run(tmp_path, "Ratio")
    path = run_dir / "run_info.json"
    path.write_text(path.read_text().replace(f"{MODULE}:Ratio", benchmark))

    with pytest.raises(UsageError) as caught:
        finalize(run_dir)

    assert f"the report needs benchmark '{benchmark}'" in str(caught.value)
    assert not (run_dir / "metrics.json").exists()
    assert run_info.load(run_dir).status == "running"


def test_a_file_outside_of_the_trusted_folders_is_not_run(tmp_path: Path) -> None:
    run_dir = a_tested_run(tmp_path, "Ratio")
    (tmp_path / "bench.py").write_text("raise SystemExit('it was run')")
    path = run_dir / "run_info.json"
    path.write_text(path.read_text().replace(f"{MODULE}:Ratio", f"{tmp_path}/bench.py:Bench"))

    with pytest.raises(UsageError, match=r"outside of the trusted folders[\s\S]*--trust"):
        finalize(run_dir, trusted_roots=())


@pytest.mark.parametrize(
    ("benchmark", "reason"),
    [("Failing", "ZeroDivisionError: nobody passed"), ("Forgetful", "it returned a NoneType")],
)
def test_a_formula_that_fails_is_named_and_costs_no_result(
    tmp_path: Path, benchmark: str, reason: str
) -> None:
    run_dir = a_tested_run(tmp_path, benchmark)

    with pytest.raises(AggregationFailed, match=reason):
        finalize(run_dir)

    assert not (run_dir / "metrics.json").exists()
    assert check_run(run_dir) == []


def test_a_formula_cannot_hide_that_the_report_is_partial(tmp_path: Path) -> None:
    run_dir = a_tested_run(tmp_path, "Silent", skip=["b"])
    decide(run_dir, "cancel")

    report = finalized(run_dir).report

    note = partial_note(report)
    assert note is not None
    assert (note.status, note.missing, report.extra["mine"]) == ("cancelled", 1, 1)
    assert "failures" in report.extra


def test_nor_claim_that_it_is(tmp_path: Path) -> None:
    report = finalized(a_tested_run(tmp_path, "Silent")).report

    assert partial_note(report) is None


def test_a_partial_report_is_by_the_same_formula(tmp_path: Path) -> None:
    run_dir = a_tested_run(tmp_path, "Ratio", skip=["b"])

    done = finalize(run_dir, wanted=Wanted(may_be_partial=True))

    assert isinstance(done, Finalized)
    assert (done.report.headline.value, done.report.headline.counts.evaluated) == (0.9, 1)


def test_a_benchmark_that_never_said_that_it_would_cannot_replace_the_formula(
    tmp_path: Path,
) -> None:
    run_dir = a_tested_run(tmp_path, "Ratio")
    finalized(run_dir)
    path = run_dir / "run_info.json"
    announced, silent = '"custom_aggregation": true', '"custom_aggregation": false'
    path.write_text(path.read_text().replace(announced, silent))

    problems = [each.problem for each in check_run(run_dir) if each.invariant == "INV-8"]

    assert any("metric report breaks" in problem for problem in problems)
