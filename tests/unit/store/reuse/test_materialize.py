"""Writing what was taken: odd sources, continued executions, other writers' artifacts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcompass.errors import RecordCorrupt
from agentcompass.models.request import AttemptPlan
from agentcompass.store import artifacts, attempts
from agentcompass.store.reuse.materialize import Deed, Taking, materialize
from agentcompass.store.reuse.source import open_source
from tests.builders import a_contract, a_task
from tests.support import golden_runs as theirs
from tests.support.reusing import the_source, with_artifacts
from tests.support.store_runs import a_reserved_run, a_run, begin, execute, publish

RIGHT = theirs.their_result(correct=True)


def write(run_dir: Path, source: Path, task_id: str, *deeds: Deed) -> Path:
    """Take one task over and return its attempt 1 in the new run."""
    plan = AttemptPlan(k=len(deeds), strategy="avg")
    taking = Taking(a_task(task_id), "running", deeds)
    materialize(run_dir, open_source(source), [taking], plan=plan, contract=a_contract())
    return next(run_dir.glob("details/running/*/attempt-1"), run_dir / "nothing")


def a_source(tmp_path: Path) -> Path:
    """Return a run of task `a` in a results folder of its own."""
    (tmp_path / "one").mkdir()
    return a_run(tmp_path / "one", "a")


@pytest.mark.parametrize("state", ["normal", None])
def test_other_writers_artifacts_go_below_an_execution_of_their_own(
    tmp_path: Path, state: str | None
) -> None:
    source = tmp_path / "theirs"
    theirs.their_run_info(source, "a")
    details = source / "details" / state if state else source / "details"
    task = theirs.their_task(details, "a", {**RIGHT, "artifacts": {"at": ["here", 1]}})
    relative = (task / "attempt-1" / "artifacts").relative_to(source).as_posix()
    theirs.write(task / "attempt-1" / "checkpoint.json", theirs.v1_checkpoint(relative))
    (task / "attempt-1" / "artifacts" / "x" / "y").mkdir(parents=True)
    (task / "attempt-1" / "artifacts" / "x" / "y" / "one.txt").write_text("1")
    (task / "attempt-1" / "artifacts" / "x" / "y" / "two.txt").write_text("2")

    attempt = write(a_reserved_run(tmp_path), source, "a", "take")

    checkpoint = attempts.load_checkpoint(attempt)
    assert checkpoint is not None
    assert checkpoint.evaluation is not None
    token = checkpoint.scheduler.token
    own = f"details/running/{attempt.parent.name}/attempt-1/artifacts/{token}"
    assert checkpoint.evaluation.artifacts.directory == own
    assert checkpoint.evaluation.run_result.artifacts == {"dir": own}
    assert (attempt / "artifacts" / token / "x" / "y" / "two.txt").read_text() == "2"
    assert attempts.load_result(attempt / "result.json").artifacts == {"at": ["here", 1]}


def test_a_snapshot_that_its_writer_masked_stays_behind(tmp_path: Path) -> None:
    source = tmp_path / "theirs"
    theirs.their_run_info(source, "a")
    task = theirs.their_task(source / "details" / "normal", "a", RIGHT)
    masked = theirs.v1_checkpoint("", ground_truth="********")
    theirs.write(task / "attempt-1" / "checkpoint.json", masked)

    attempt = write(a_reserved_run(tmp_path), source, "a", "take")

    assert sorted(path.name for path in attempt.iterdir()) == ["result.json"]


def test_a_result_that_went_away_meanwhile_stops_it(tmp_path: Path) -> None:
    source = a_source(tmp_path)

    with pytest.raises(RecordCorrupt, match="has no result"):
        write(a_reserved_run(tmp_path), source, "a", "take")


def test_a_record_that_broke_meanwhile_stops_it(tmp_path: Path) -> None:
    source = a_source(tmp_path)
    execute(source, "a")
    next(source.glob("details/*/a--*/task.json")).write_text("{")

    with pytest.raises(RecordCorrupt, match=r"task\.json"):
        write(a_reserved_run(tmp_path), source, "a", "take")


def test_a_task_of_which_nothing_is_kept_gets_no_directory(tmp_path: Path) -> None:
    source = a_source(tmp_path)
    run_dir = a_reserved_run(tmp_path)

    write(run_dir, source, "a", "run")

    assert not list(run_dir.glob("details/running/*"))


def test_what_is_there_already_is_not_brought_again(tmp_path: Path) -> None:
    source = the_source(tmp_path / "one")
    run_dir = a_reserved_run(tmp_path)
    first = write(run_dir, source, "whole", "take", "take")
    inode = (first / "result.json").stat().st_ino

    again = write(run_dir, source, "whole", "take", "take")

    assert (again / "result.json").stat().st_ino == inode
    assert not list(run_dir.glob(".tmp-reuse-*"))


def test_unknown_fields_of_a_result_come_along(tmp_path: Path) -> None:
    source = a_source(tmp_path)
    execute(source, "a")
    path = next(source.glob("details/*/a--*/attempt-1/result.json"))
    path.write_text(path.read_text().replace('"task_id":', '"of_tomorrow":{"x":1},"task_id":', 1))

    attempt = write(a_reserved_run(tmp_path), source, "a", "take")

    assert json.loads((attempt / "result.json").read_text())["of_tomorrow"] == {"x": 1}


@pytest.mark.parametrize("when", ["before it is copied", "while it is copied"])
def test_a_task_that_its_source_files_meanwhile_is_taken_with_all_its_files(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    source = a_run(tmp_path / "one", "a", k=2)
    view = begin(source, "a", 1)
    attempts.write_snapshot(view, with_artifacts(view))
    publish(source, view)
    real = artifacts.copy_tree

    def overtaken(theirs: Path, own: Path) -> None:
        monkeypatch.undo()
        if when == "while it is copied":
            real(theirs, own)
        execute(source, "a", 2)
        real(theirs, own)

    monkeypatch.setattr(artifacts, "copy_tree", overtaken)

    attempt = write(a_reserved_run(tmp_path), source, "a", "take", "run")

    assert attempts.load_result(attempt / "result.json").token == view.token
    kept = attempt / "artifacts" / view.token / "out" / "deep" / "answer.txt"
    assert kept.read_text() == "a"


def test_a_file_that_a_source_has_lost_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = a_source(tmp_path)
    view = begin(source, "a")
    attempts.artifacts_directory(view)
    publish(source, view)

    def lost(theirs: Path, _own: Path) -> None:
        raise FileNotFoundError(theirs)

    monkeypatch.setattr(artifacts, "copy_tree", lost)

    with pytest.raises(FileNotFoundError):
        write(a_reserved_run(tmp_path), source, "a", "take")
