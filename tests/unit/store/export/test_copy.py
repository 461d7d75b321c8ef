"""A copy of a run in the other writer's format: our reader and theirs see the same numbers."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcompass.errors import RecordCorrupt, RunNotSealed, UsageError
from agentcompass.metrics.report import build_report
from agentcompass.models.metric import MetricDisplay
from agentcompass.models.request import ReuseSettings
from agentcompass.models.trajectory import Step, Trajectory
from agentcompass.store import atomic
from agentcompass.store.export import shapes
from agentcompass.store.export.copy import write_copy
from agentcompass.store.foreign import foreign_outcomes, open_foreign
from tests.builders import T0, a_result, a_task, an_issue
from tests.support import golden_runs as theirs
from tests.support.reusing import fingerprint, new_request, reuse_into, the_source
from tests.support.store_runs import a_run, execute, reduce, write_report

OTHER_PYTHON = os.environ.get("AGENTCOMPASS_1_0_PYTHON", "")
READER = Path(__file__).parents[3] / "support" / "other_reader.py"


def read_by_the_other(run_dir: Path) -> Any:
    """Return what AgentCompass 1.0.1 reads; it is started outside of this package's folder."""
    done = subprocess.run(
        [OTHER_PYTHON, str(READER), str(run_dir)],
        capture_output=True,
        text=True,
        check=False,
        cwd=run_dir,
        timeout=50,
        env={"PATH": os.environ["PATH"], "HOME": str(run_dir)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def a_mixed_run(tmp_path: Path) -> Path:
    """Return a reported k=2 run with right and wrong answers, a warning, an error and a trajectory."""
    run_dir = a_run(tmp_path, "a/1", "b", "c", k=2)
    said = Trajectory(steps=(Step(step_id=1, user_content="?", started_at=T0),), started_at=T0)
    execute(run_dir, "a/1", 1, a_result("a/1", 1).model_copy(update={"trajectory": said}))
    execute(run_dir, "a/1", 2, a_result("a/1", 2, metrics={"correct": False}))
    execute(run_dir, "b", 1, a_result("b", 1, issues=[an_issue("warning")]))
    execute(run_dir, "b", 2, a_result("b", 2))
    execute(run_dir, "c", 1, a_result("c", 1, issues=[an_issue()], metrics={}))
    execute(run_dir, "c", 2, a_result("c", 2))
    write_report(run_dir)
    return run_dir


def test_our_reader_sees_the_same_numbers_in_the_copy(tmp_path: Path) -> None:
    run_dir = a_mixed_run(tmp_path)
    before = fingerprint(run_dir)

    count = write_copy(run_dir, tmp_path / "copy")

    run = open_foreign(tmp_path / "copy")
    report = build_report(run.contract, run.attempts, foreign_outcomes(run))
    ours = {each.series_id: (each.value, each.counts) for each in reduce(run_dir).series}
    found = {each.series_id: (each.value, each.counts) for each in report.series}
    assert count == 3
    assert found == {name: ours[name] for name in found}
    assert {task.task_id: task.state for task in run.tasks} == {
        "a/1": "normal",
        "b": "normal",
        "c": "error",
    }
    assert fingerprint(run_dir) == before


def test_what_strategy_pass_skipped_leaves_no_record(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a", k=2, strategy="pass")
    execute(run_dir, "a", 1)
    skipped = a_result("a", 2, metrics={}).model_copy(update={"status": "skipped"})
    execute(run_dir, "a", 2, skipped)

    write_copy(run_dir, tmp_path / "copy")

    (task,) = (tmp_path / "copy").glob("details/normal/*/task.json")
    assert json.loads(task.read_text())["attempts"] == {"1": "attempt-1"}


def test_it_is_a_source_of_reuse_again(tmp_path: Path) -> None:
    source = the_source(tmp_path / "results")
    write_copy(source, tmp_path / "copy")
    request = new_request(reuse=ReuseSettings(run_id=str(tmp_path / "copy")))

    _, chosen = reuse_into(tmp_path / "results", request, [a_task("whole"), a_task("half")])

    assert chosen.reuse is not None
    assert [each.deeds for each in chosen.reuse.choices] == [("take", "take"), ("take", "run")]


def test_a_run_that_reused_another_names_it_and_one_that_failed_says_why(tmp_path: Path) -> None:
    the_source(tmp_path / "results")
    request = new_request(reuse=ReuseSettings())
    run, _ = reuse_into(tmp_path / "results", request, [a_task("whole"), a_task("new")])
    run_dir = run.address.run_dir
    fatal = a_result("new", 1, issues=[an_issue("fatal")], metrics={}, token="t1")
    execute(run_dir, "new", 1, fatal)
    execute(run_dir, "new", 2, a_result("new", 2, token="t2"))
    write_report(run_dir)

    write_copy(run_dir, tmp_path / "copy")

    info = json.loads((tmp_path / "copy" / "run_info.json").read_text())
    assert info["reused_from"]["run_id"] == "source"
    assert info["status"] == "failed"
    assert "fatal issue" in info["error"]


def test_a_report_with_unknown_series_only_has_no_place_there(tmp_path: Path) -> None:
    run_dir = a_mixed_run(tmp_path)
    made = reduce(run_dir)
    named = made.series[0].model_copy(
        update={"display": MetricDisplay(label="Right"), "reducer": "all"}
    )

    assert shapes.report_of(made.model_copy(update={"series": (named,)})) is None
    kept = shapes.report_of(
        made.model_copy(update={"series": (named.model_copy(update={"reducer": "avg"}),)})
    )
    assert kept is not None
    plain = named.model_copy(update={"reducer": "avg", "display": MetricDisplay()})
    bare = shapes.report_of(made.model_copy(update={"series": (plain,)}))
    assert bare is not None
    assert bare["series"][0]["display"] is None  # type: ignore[index,call-overload]


class TestRefusals:
    def test_a_run_without_a_contract_has_nothing_to_copy(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        info = json.loads((run_dir / "run_info.json").read_text())
        (run_dir / "run_info.json").write_text(json.dumps({**info, "metric_contract": None}))

        with pytest.raises(RunNotSealed):
            write_copy(run_dir, tmp_path / "copy")

    def test_a_folder_that_appeared_meanwhile_stays(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_mixed_run(tmp_path)
        monkeypatch.setattr(atomic, "move", lambda *_: False)

        with pytest.raises(UsageError, match="exists already"):
            write_copy(run_dir, tmp_path / "copy")

        assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]

    def test_a_malformed_result_is_named_and_nothing_is_left(self, tmp_path: Path) -> None:
        run_dir = a_mixed_run(tmp_path)
        next(run_dir.glob("details/normal/b--*/attempt-1/result.json")).write_text("{")

        with pytest.raises(RecordCorrupt, match="attempt-1"):
            write_copy(run_dir, tmp_path / "copy")

        assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]

    def test_a_folder_that_is_there_stays(self, tmp_path: Path) -> None:
        run_dir = a_mixed_run(tmp_path)
        (tmp_path / "copy").mkdir()

        with pytest.raises(UsageError, match="exists already"):
            write_copy(run_dir, tmp_path / "copy")
        with pytest.raises(UsageError, match="no folder"):
            write_copy(run_dir, tmp_path / "nowhere" / "copy")

    def test_a_run_of_the_other_writer_needs_no_copy(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path / "theirs")

        with pytest.raises(UsageError, match="already"):
            write_copy(tmp_path / "theirs", tmp_path / "copy")


@pytest.mark.slow
@pytest.mark.skipif(
    not OTHER_PYTHON, reason="AGENTCOMPASS_1_0_PYTHON names no interpreter with agentcompass 1.0.1"
)
class TestTheOtherReader:
    def test_it_accepts_a_finished_run_and_reads_the_same_numbers(self, tmp_path: Path) -> None:
        run_dir = a_mixed_run(tmp_path)
        write_copy(run_dir, tmp_path / "copy")

        found = read_by_the_other(tmp_path / "copy")

        ours = {each.series_id: each.value for each in reduce(run_dir).series}
        assert found["finished"] == ["a/1", "b", "c"]
        assert found["metrics"]["a/1"] == {"1": {"correct": True}, "2": {"correct": False}}
        assert found["series"] == {name: ours[name] for name in ("correct.avg@2", "correct.pass@2")}
        assert found["plan"] == {"k": 2, "strategy": "avg"}

    def test_it_takes_single_attempts_of_an_interrupted_run(self, tmp_path: Path) -> None:
        source = the_source(tmp_path / "results")
        write_copy(source, tmp_path / "copy")

        found = read_by_the_other(tmp_path / "copy")

        assert found["finished"] == ["errored", "whole"]
        assert found["resumable"] == {"half": [1]}

    def test_it_accepts_what_strategy_pass_left(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b", k=3, strategy="pass")
        for task_id in ("a", "b"):
            execute(run_dir, task_id, 1, a_result(task_id, 1, metrics={"correct": False}))
            execute(run_dir, task_id, 2, a_result(task_id, 2))
            skipped = a_result(task_id, 3, metrics={}).model_copy(update={"status": "skipped"})
            execute(run_dir, task_id, 3, skipped)
        write_report(run_dir)
        write_copy(run_dir, tmp_path / "copy")

        found = read_by_the_other(tmp_path / "copy")

        assert found["series"] == {"correct.pass@3": 1.0}
