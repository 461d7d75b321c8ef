from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.metrics.extras import PartialNote, partial_note
from agentcompass.metrics.validate import ReportInvalid
from agentcompass.models.run_info import ReuseSource
from agentcompass.runtime.finalize import Finalized, Incomplete, finalize
from agentcompass.store import filing, report, scan
from agentcompass.store.check import check_run
from tests.support import store_runs
from tests.support.delivering import Lab, a_lab
from tests.support.measured import a_measured_run, finalized
from tests.support.metrics import RIGHT


def a_complete_run(tmp_path: Path, **script: str) -> Lab:
    lab = a_lab(tmp_path, agent=script)
    for task_id in lab.offsets:
        lab.deliver(task_id)
    return lab


def written(lab: Lab) -> dict[str, bytes]:
    names = ("metrics.json", "summary.md", ".covered.json", "run_info.json")
    return {name: (lab.run_dir / name).read_bytes() for name in names}


def test_a_complete_run_gets_its_report(tmp_path: Path) -> None:
    lab = a_complete_run(tmp_path, t1="wrong")

    found = finalize(lab.run_dir)

    assert isinstance(found, Finalized)
    assert (found.report.headline.value, found.info.status) == (0.5, "completed")
    assert found.info.metric_artifacts is not None
    assert check_run(lab.run_dir) == []


def test_nothing_final_is_written_while_an_attempt_is_missing(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, k=2)
    lab.deliver("t0", 1)

    found = finalize(lab.run_dir)

    assert found == Incomplete((("t0", 2), ("t1", 1), ("t1", 2)), 3)
    assert report.load_report(lab.run_dir) is None
    assert not (lab.run_dir / "summary.md").exists()


def test_finalizing_twice_changes_not_a_byte(tmp_path: Path) -> None:
    lab = a_complete_run(tmp_path)
    finalize(lab.run_dir)
    before = written(lab)

    finalize(lab.run_dir)

    assert written(lab) == before


def test_a_report_that_is_lost_or_damaged_is_made_again(tmp_path: Path) -> None:
    lab = a_complete_run(tmp_path)
    finalize(lab.run_dir)
    before = written(lab)
    (lab.run_dir / "metrics.json").write_bytes(b"{}")
    (lab.run_dir / "summary.md").unlink()

    finalize(lab.run_dir)

    assert written(lab) == before


def test_a_fatal_issue_withholds_the_official_value(tmp_path: Path) -> None:
    lab = a_complete_run(tmp_path, t1="fatal")

    found = finalize(lab.run_dir)

    assert isinstance(found, Finalized)
    headline = found.report.headline
    assert (headline.value, headline.reference_value, found.info.status) == (None, 1.0, "failed")


def an_own_formula(tmp_path: Path, formula: str) -> Lab:
    lab = a_lab(tmp_path, benchmark="OwnFormula", evaluator={"formula": formula})
    path = lab.run_dir / "run_info.json"
    text = path.read_text(encoding="utf-8")
    custom = '"custom_aggregation": true'
    path.write_text(text.replace('"custom_aggregation": false', custom), encoding="utf-8")
    for task_id in lab.offsets:
        lab.deliver(task_id)
    return lab


def test_a_benchmark_may_replace_the_formula(tmp_path: Path) -> None:
    lab = an_own_formula(tmp_path, "right")

    found = finalize(lab.run_dir, trusted_roots=())

    assert isinstance(found, Finalized)
    assert found.report.headline.value == 1.0


def test_a_formula_that_breaks_the_rules_writes_nothing(tmp_path: Path) -> None:
    lab = an_own_formula(tmp_path, "wrong")

    with pytest.raises(ReportInvalid):
        finalize(lab.run_dir)

    assert not (lab.run_dir / "metrics.json").exists()


def test_a_cancelled_run_gets_a_partial_report_that_says_so(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.deliver("t0")
    store_runs.decide(lab.run_dir, "cancel")

    found = finalize(lab.run_dir)

    assert isinstance(found, Finalized)
    assert partial_note(found.report) == PartialNote(status="cancelled", missing=1)
    assert found.info.status == "cancelled"
    assert check_run(lab.run_dir) == []


def test_a_resumed_run_replaces_the_partial_report(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    store_runs.decide(lab.run_dir, "cancel")
    finalize(lab.run_dir)
    store_runs.decide(lab.run_dir, "resume")
    for task_id in lab.offsets:
        lab.deliver(task_id, leg=2)

    found = finalize(lab.run_dir)

    assert isinstance(found, Finalized)
    assert (partial_note(found.report), found.info.status) == (None, "completed")


def test_a_paused_run_is_incomplete(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    store_runs.decide(lab.run_dir, "pause")

    assert isinstance(finalize(lab.run_dir), Incomplete)


def test_an_attempt_that_was_cancelled_by_name_is_not_missed(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.deliver("t0")
    store_runs.decide(lab.run_dir, "cancel", ("t1", 1))

    found = finalize(lab.run_dir)

    assert isinstance(found, Finalized)
    counts = found.report.headline.counts
    assert (counts.total, counts.evaluated, counts.unavailable) == (2, 1, 1)


def test_a_task_that_its_last_publisher_did_not_file_is_filed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = a_lab(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(filing, "file_if_terminal", lambda *_, **__: None)
        for task_id in lab.offsets:
            lab.deliver(task_id)

    finalize(lab.run_dir)

    assert len(list((lab.run_dir / "details" / "normal").iterdir())) == 2
    assert check_run(lab.run_dir) == []


def test_results_that_change_meanwhile_are_reduced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = a_lab(tmp_path, agent={"t1": "wrong|ok"})
    lab.deliver("t0")
    lab.deliver("t1")
    rounds: list[int] = []
    heads = scan.heads

    def rerun_meanwhile(*args: object, **kwargs: object) -> object:
        rounds.append(1)
        if len(rounds) == 1:
            store_runs.decide(lab.run_dir, "rerun", ("t1", 1))
            lab.deliver("t1", leg=2)
        return heads(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(scan, "heads", rerun_meanwhile)

    found = finalize(lab.run_dir)

    assert isinstance(found, Finalized)
    assert (found.report.headline.value, len(rounds)) == (1.0, 2)
    assert check_run(lab.run_dir) == []


def test_the_summary_says_what_was_taken_from_where_and_what_differs(tmp_path: Path) -> None:
    source = ReuseSource(
        run_id="run-0",
        path="results/run-0",
        differences=({"field": "model.params.temperature", "source": 0, "now": 1},),
        tasks=1,
        attempts=3,
    )
    run_dir = a_measured_run(tmp_path, {"a": (RIGHT,)}, reused_from=source)

    done = finalized(run_dir)

    assert done.context.notes == (
        "3 attempts of 1 task were taken from run run-0.",
        "What differs from that run: model.params.temperature.",
    )
    assert "taken from run run-0" in (run_dir / "summary.md").read_text(encoding="utf-8")
