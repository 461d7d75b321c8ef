"""What is wrong in a source is named, file by file; what does not count there is left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentcompass.models.result import AttemptResult
from agentcompass.store import attempts
from agentcompass.store.reuse.read import TaskFound, read_task
from agentcompass.store.reuse.source import digest_in, open_source
from tests.builders import a_contract, a_result, a_task
from tests.support import golden_runs as theirs
from tests.support.store_runs import a_checkpoint, a_run, begin, decide, execute, publish


def read(run_dir: Path, task_id: str = "task-1") -> TaskFound:
    return read_task(open_source(run_dir), a_task(task_id), a_contract())


def a_finished_run(tmp_path: Path, result: AttemptResult | None = None) -> tuple[Path, Path]:
    """Return a run of one task, and the task's directory."""
    run_dir = a_run(tmp_path)
    execute(run_dir, result=result)
    return run_dir, next(run_dir.glob("details/*/*"))


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


class TestTaskRecords:
    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"schema_version": "agentcompass.task.v9"}, "v9"),
            ({"task_id": "other"}, "task_id is 'other'"),
            ({"attempts": {"1": "attempt-2"}}, "attempt-n"),
            ({"attempts": ["attempt-1"]}, "attempt-n"),
            ({"attempt_plan": {"k": 2, "strategy": "avg"}}, "attempt_plan"),
        ],
    )
    def test_one_that_says_something_else_is_named_with_the_field(
        self, tmp_path: Path, fields: dict[str, object], reason: str
    ) -> None:
        run_dir, task = a_finished_run(tmp_path)
        change(task / "task.json", **fields)

        ((path, why),) = read(run_dir).malformed

        assert path == task / "task.json"
        assert reason in why

    def test_one_that_is_gone_is_named_unless_there_is_nothing_to_name(
        self, tmp_path: Path
    ) -> None:
        run_dir, task = a_finished_run(tmp_path)
        (task / "task.json").unlink()

        assert [why for _, why in read(run_dir).malformed] == ["is not there"]
        (task / "attempt-1" / "result.json").unlink()
        for path in (task / "attempt-1").iterdir():
            path.unlink()
        (task / "attempt-1").rmdir()
        assert read(run_dir).malformed == ()


class TestResults:
    def test_one_of_another_attempt_is_named(self, tmp_path: Path) -> None:
        run_dir, task = a_finished_run(tmp_path)
        path = task / "attempt-1" / "result.json"
        path.write_text(path.read_text().replace('"attempt":1', '"attempt":2'))

        ((found, why),) = read(run_dir).malformed

        assert (found, why) == (path, "is the result of 'task-1', attempt 2")

    def test_one_of_an_unknown_format_is_named(self, tmp_path: Path) -> None:
        run_dir, task = a_finished_run(tmp_path)
        path = task / "attempt-1" / "result.json"
        path.write_text(path.read_text().replace("attempt_result.v1", "attempt_result.v9"))

        ((_, why),) = read(run_dir).malformed

        assert "v9" in why

    def test_one_that_a_rerun_has_taken_away_does_not_count(self, tmp_path: Path) -> None:
        run_dir, _ = a_finished_run(tmp_path)
        decide(run_dir, "rerun", ("task-1", 1))

        assert read(run_dir).attempts[1].result is None

    def test_an_attempt_without_one_is_not_over(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        begin(run_dir)

        assert read(run_dir).attempts[1].result is None

    def test_attempts_beyond_the_plan_and_other_folders_are_left_out(self, tmp_path: Path) -> None:
        run_dir, task = a_finished_run(tmp_path)
        (task / "attempt-2").mkdir()
        (task / "notes").mkdir()

        assert list(read(run_dir).attempts) == [1]

    def test_observations_of_another_type_than_declared_are_left_out(self, tmp_path: Path) -> None:
        run_dir, _ = a_finished_run(tmp_path, a_result(metrics={"correct": 1, "other": True}))

        result = read(run_dir).attempts[1].result

        assert result is not None
        assert result.metrics == {}

    def test_a_checkpoint_of_another_execution_means_nothing_beside_a_result(
        self, tmp_path: Path
    ) -> None:
        run_dir = a_run(tmp_path)
        view = begin(run_dir, token="late")
        checkpoint = a_checkpoint(view).model_dump(mode="json")
        publish(run_dir, view)
        task = next(run_dir.glob("details/*/*"))
        checkpoint["scheduler"]["token"] = "dead"
        (task / "attempt-1" / "checkpoint.json").write_text(json.dumps(checkpoint))

        assert read(run_dir).attempts[1].checkpoint is None

    def test_an_attempt_of_the_oldest_layout_that_is_none_is_named(self, tmp_path: Path) -> None:
        theirs.their_run_info(tmp_path, schema=None, status=None, k=2)
        theirs.detail_file(tmp_path, "a", "a", {"status": "odd"}, {"correct": True}, k=2)
        (tmp_path / "details" / "notes.txt").write_text("mine")

        found = read(tmp_path, "a")

        assert [path.name for path, _ in found.malformed] == ["a.json"]
        assert list(found.attempts) == [2]


def test_a_directory_without_a_digest_is_no_task(tmp_path: Path) -> None:
    assert digest_in("notes") == ""


class TestMovedTasks:
    @pytest.mark.parametrize("when", ["before it is read", "while it is read"])
    def test_a_task_that_its_run_files_after_it_was_opened_is_read_where_it_stands(
        self, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path, k=2)
        execute(run_dir, attempt=1)
        view = begin(run_dir, attempt=2)
        source = open_source(run_dir)
        real = attempts.load_result

        def overtaken(path: Path) -> AttemptResult:
            monkeypatch.undo()
            publish(run_dir, view)
            return real(path)

        if when == "before it is read":
            publish(run_dir, view)
        else:
            monkeypatch.setattr(attempts, "load_result", overtaken)

        found = read_task(source, a_task("task-1"), a_contract())

        assert found.state == "normal"
        assert [n for n, each in found.attempts.items() if each.result is not None] == [1, 2]
        assert not found.is_moved

    def test_one_that_is_gone_by_then_is_not_there(self, tmp_path: Path) -> None:
        run_dir, task = a_finished_run(tmp_path)
        source = open_source(run_dir)
        shutil.rmtree(task)

        assert read_task(source, a_task("task-1"), a_contract()) == TaskFound("task-1")
