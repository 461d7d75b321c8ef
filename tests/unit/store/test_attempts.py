from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.errors import RecordCorrupt, RunNotFound
from agentcompass.models.request import AttemptPlan
from agentcompass.models.run_info import TaskRecord
from agentcompass.store import atomic, attempts, disk, layout, marks, records
from agentcompass.store.attempts import AttemptView
from agentcompass.store.check import check_run
from agentcompass.store.results import ResultHead
from tests.builders import a_result, a_task, an_issue
from tests.support.store_runs import (
    TOKEN,
    a_checkpoint,
    a_mark,
    a_run,
    begin,
    execute,
    publish,
)

OTHER = "o" * 16


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class TestBegin:
    def test_the_first_execution_finds_nothing(self, tmp_path: Path) -> None:
        view = begin(a_run(tmp_path))

        assert (view.state, view.is_published, view.has_checkpoint) == ("running", False, False)
        assert (view.marks, view.kill_note) == ((), None)
        assert names(view.directory) == [f"started-{TOKEN}.json"]

    def test_task_json_says_what_was_frozen(self, tmp_path: Path) -> None:
        view = begin(a_run(tmp_path, k=2))

        record = records.read(view.directory.parent / layout.TASK, TaskRecord)

        assert (record.task_id, record.ground_truth) == ("task-1", "4")
        assert record.attempts == {"1": "attempt-1", "2": "attempt-2"}

    def test_the_next_execution_sees_the_marks_of_the_dead(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        begin(run_dir)

        assert begin(run_dir, token=OTHER).marks == (a_mark(),)

    def test_a_published_attempt_gets_no_mark(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, k=2)
        execute(run_dir)

        view = begin(run_dir, token=OTHER)

        assert view.is_published
        assert f"started-{OTHER}.json" not in names(view.directory)

    def test_a_filed_task_is_found_where_it_stands(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)

        view = begin(run_dir, token=OTHER)

        assert (view.state, view.is_published) == ("normal", True)
        assert names(run_dir / "details" / "running") == []

    def test_a_task_filed_between_our_look_and_our_mkdir_is_found(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        monkeypatch.setattr(disk, "look", once(None, disk.look))

        assert begin(run_dir, token=OTHER).state == "normal"
        assert names(run_dir / "details" / "running") == []

    def test_a_task_filed_under_our_mkdir_is_looked_up_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path)
        begin(run_dir)

        def faster(path: str, data: bytes) -> bool:
            monkeypatch.undo()
            execute(run_dir, result=a_result(token=OTHER))
            return atomic.create(path, data)

        monkeypatch.setattr(atomic, "create", faster)

        assert begin(run_dir, token="third").is_published

    def test_a_filed_task_whose_result_is_gone_comes_back(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        path = attempts.result_of(run_dir, "task-1", 1)
        assert path is not None
        path.unlink()

        view = begin(run_dir, token=OTHER)

        assert (view.state, view.is_published) == ("running", False)

    def test_a_result_of_an_earlier_leg_is_moved_aside(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)

        view = begin(run_dir, token=OTHER, leg=2, valid_from_leg=2)

        assert (view.state, view.is_published, view.marks) == ("running", False, ())
        assert names(view.directory / "retries" / "leg-1") == [
            f"result-{TOKEN}-1.json",
            f"started-{TOKEN}-1.json",
        ]

    @pytest.mark.parametrize("token", ["", "a/b", "..", "x" * 65])
    def test_a_token_that_is_no_name_is_refused(self, token: str, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="token"):
            begin(a_run(tmp_path), token=token)

    def test_a_run_that_is_gone_is_said_to_be_gone(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        shutil.rmtree(run_dir)

        with pytest.raises(RunNotFound):
            attempts.begin(run_dir, a_task(), AttemptPlan(), 1, a_mark())

    def test_a_task_that_moves_for_ever_is_an_error_and_not_a_hang(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def moved(*_arguments: object) -> None:
            raise FileNotFoundError

        monkeypatch.setattr(marks, "put", moved)

        with pytest.raises(FileNotFoundError):
            begin(a_run(tmp_path))


def once(first: object, then: Callable[..., object]) -> Callable[..., object]:
    answers = [first]

    def answer(*arguments: object) -> object:
        return answers.pop() if answers else then(*arguments)

    return answer


class TestPublish:
    def test_the_first_result_stays_and_the_second_is_evidence(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        ours, theirs = begin(run_dir), begin(run_dir, token=OTHER)
        right, wrong = a_result(), a_result(token=OTHER, metrics={"correct": False})

        assert publish(run_dir, ours, right)
        assert not publish(run_dir, theirs, wrong)

        path = attempts.result_of(run_dir, "task-1", 1)
        assert path is not None
        assert attempts.load_result(path) == right
        kept = path.parent / "retries" / f"execution-{OTHER}" / "result.json"
        assert attempts.load_result(kept) == wrong
        assert check_run(run_dir) == []

    def test_publishing_again_is_publishing_once(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        view = begin(run_dir)

        assert publish(run_dir, view)
        assert publish(run_dir, view)

        assert not (view.directory / "retries").exists()

    def test_the_loser_takes_its_snapshot_and_artifacts_along(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, k=2)
        ours, theirs = begin(run_dir), begin(run_dir, token=OTHER)
        directory, _ = attempts.artifacts_directory(theirs)
        (directory / "log").write_text("x")
        attempts.write_snapshot(theirs, a_checkpoint(theirs))
        publish(run_dir, ours)

        publish(run_dir, theirs)

        kept = theirs.directory / "retries" / f"execution-{OTHER}"
        assert names(kept) == ["artifacts", "checkpoint.json", "result.json"]
        assert f"closed-{OTHER}.superseded.json" in names(theirs.directory)

    def test_a_late_snapshot_never_stands_beside_anothers_result(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, k=2)
        ours, theirs = begin(run_dir), begin(run_dir, token=OTHER)
        attempts.write_snapshot(ours, a_checkpoint(ours))
        publish(run_dir, ours)

        assert not attempts.write_snapshot(theirs, a_checkpoint(theirs))

        checkpoint = attempts.load_checkpoint(ours.directory)
        assert checkpoint is not None
        assert checkpoint.scheduler.token == TOKEN

    def test_a_late_snapshot_of_a_filed_task_is_refused_too(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        ours, theirs = begin(run_dir), begin(run_dir, token=OTHER)
        publish(run_dir, ours)

        assert not attempts.write_snapshot(theirs, a_checkpoint(theirs))
        assert not publish(run_dir, theirs)
        assert check_run(run_dir) == []

    def test_a_result_of_a_closed_leg_gives_way(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        late = begin(run_dir)
        again = begin(run_dir, token=OTHER, leg=2, valid_from_leg=2)
        publish(run_dir, late)  # its holder did not know that the attempt was reopened

        assert publish(run_dir, again, a_result(token=OTHER, leg=2))

        path = attempts.result_of(run_dir, "task-1", 1)
        assert path is not None
        assert attempts.load_outcome(path).token == OTHER

    def test_a_torn_result_is_not_replaced(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, k=2)
        view = begin(run_dir)
        (view.directory / "result.json").write_text("{")

        assert not publish(run_dir, view)

        assert (view.directory / "result.json").read_text() == "{"

    def test_a_result_that_json_cannot_say_writes_nothing(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        view = begin(run_dir)
        bad = a_result().model_copy(update={"final_answer": 10**30})

        with pytest.raises(TypeError):
            publish(run_dir, view, bad)
        assert not attempts.is_published(run_dir, "task-1", 1)

    def test_is_published_looks_at_the_leg(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        assert not attempts.is_published(run_dir, "task-1", 1)
        execute(run_dir)

        assert attempts.is_published(run_dir, "task-1", 1)
        assert not attempts.is_published(run_dir, "task-1", 1, valid_from_leg=2)
        assert not attempts.is_published(run_dir, "task-1", 2)
        assert attempts.result_of(run_dir, "gone", 1) is None
        assert attempts.find_task(run_dir, "gone") is None

    def test_a_result_is_found_while_its_task_is_filed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path, "a", "b", k=2)
        for task_id in ("a", "b"):
            execute(run_dir, task_id, 1, a_result(task_id, leg=2))
        real = attempts.load_outcome

        def overtaken(path: Path) -> ResultHead:
            task_id = "a" if "/a--" in str(path) else "b"
            monkeypatch.setattr(attempts, "load_outcome", real)
            execute(run_dir, task_id, 2)
            return real(path)

        monkeypatch.setattr(attempts, "load_outcome", overtaken)
        assert attempts.is_published(run_dir, "a", 1, valid_from_leg=2)
        monkeypatch.setattr(attempts, "load_outcome", overtaken)
        head = attempts.find_head(run_dir, "b", 1)
        assert head is not None
        assert head.leg == 2

    def test_a_task_that_is_filed_between_two_looks_is_found(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path, "a", k=2)
        execute(run_dir, "a", 1)
        real = disk.is_file

        def overtaken(path: str | Path) -> bool:
            monkeypatch.setattr(disk, "is_file", real)
            execute(run_dir, "a", 2)
            return real(path)

        monkeypatch.setattr(disk, "is_file", overtaken)
        found = attempts.result_of(run_dir, "a", 1)

        assert found is not None
        assert found.is_file()


class TestCheckpoint:
    def test_a_snapshot_reads_back_equal(self, tmp_path: Path) -> None:
        view = begin(a_run(tmp_path))
        checkpoint = a_checkpoint(view)

        assert attempts.write_snapshot(view, checkpoint)

        assert attempts.load_checkpoint(view.directory) == checkpoint

    def test_there_may_be_none(self, tmp_path: Path) -> None:
        assert attempts.load_checkpoint(begin(a_run(tmp_path)).directory) is None

    @pytest.mark.parametrize("part", range(0, 20, 3))
    def test_a_torn_one_is_refused_by_name(self, part: int, tmp_path: Path) -> None:
        view = begin(a_run(tmp_path))
        attempts.write_snapshot(view, a_checkpoint(view))
        path = view.directory / "checkpoint.json"
        path.write_bytes(path.read_bytes()[: path.stat().st_size * part // 20])

        with pytest.raises(RecordCorrupt, match="checkpoint"):
            attempts.load_checkpoint(view.directory)


class TestEvidence:
    def prepared(self, tmp_path: Path) -> AttemptView:
        view = begin(a_run(tmp_path))
        directory, _ = attempts.artifacts_directory(view)
        (directory / "log").write_text("x")
        attempts.write_snapshot(view, a_checkpoint(view))
        return view

    def test_a_discarded_try_keeps_its_record_and_outputs(self, tmp_path: Path) -> None:
        view = self.prepared(tmp_path)
        bad = a_result(issues=[an_issue("fatal")])

        kept = attempts.keep_retry(view, 1, bad)

        assert kept == view.directory / "retries" / "retry-1"
        assert attempts.load_result(kept / "result.json") == bad
        assert (kept / "artifacts" / "log").read_text() == "x"
        assert attempts.load_checkpoint(kept) == a_checkpoint(view)
        assert attempts.load_checkpoint(view.directory) is None

    def test_a_repeated_evaluation_still_has_its_snapshot(self, tmp_path: Path) -> None:
        view = self.prepared(tmp_path)

        kept = attempts.keep_retry(view, 1, a_result(), with_outputs=False)

        assert names(kept) == ["result.json"]
        assert attempts.load_checkpoint(view.directory) is not None

    def test_what_a_dead_execution_left_is_put_aside(self, tmp_path: Path) -> None:
        view = self.prepared(tmp_path)
        next_view = begin(view.run_dir, token=OTHER)

        kept = attempts.keep_execution(next_view, TOKEN)

        assert names(kept) == ["artifacts", "checkpoint.json"]
        assert attempts.keep_execution(next_view, TOKEN) == kept

    def test_a_checkpoint_of_somebody_else_stays(self, tmp_path: Path) -> None:
        view = self.prepared(tmp_path)

        attempts.keep_execution(view, OTHER)

        assert attempts.load_checkpoint(view.directory) is not None

    def test_a_mark_is_closed_through_the_view_even_if_the_task_was_filed(
        self, tmp_path: Path
    ) -> None:
        run_dir = a_run(tmp_path)
        view, other = begin(run_dir), begin(run_dir, token=OTHER)
        publish(run_dir, other, a_result(token=OTHER))

        attempts.close_mark(view, TOKEN, "handed_back")
        attempts.close_mark(other.directory, OTHER, "handed_back")

        found = attempts.find_task(run_dir, "task-1")
        assert found is not None
        assert f"closed-{TOKEN}.handed_back.json" in names(found[1] / "attempt-1")


def test_a_running_copy_that_somebody_else_has_filled_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    monkeypatch.setattr(disk, "look", once(None, disk.look))
    monkeypatch.setattr(atomic, "remove_directory", lambda _path: False)

    view = begin(run_dir, token=OTHER)

    assert (view.state, view.is_published) == ("running", False)
    assert not publish(run_dir, view, a_result(token=OTHER)) or check_run(run_dir) == []


def test_a_task_that_is_nowhere_leaves_the_view_as_it_is(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    view = begin(run_dir)
    shutil.rmtree(view.directory.parent)

    attempts.close_mark(view, TOKEN, "handed_back")

    assert view.state == "running"
