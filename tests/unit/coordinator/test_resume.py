from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agentcompass.coordinator.control import cancel, interrupt, pause
from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.resuming.rerun import snapshots_of
from agentcompass.coordinator.resuming.resume import Resumable, Resumed, Wish, examine, go_on
from agentcompass.coordinator.snapshot import breadth_first
from agentcompass.errors import RecordCorrupt, RunNotFound, UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.issue import Issue
from agentcompass.models.request import Request
from agentcompass.store import attempts, control, run_info
from agentcompass.store.check import check_run
from tests.builders import T0, a_result, an_issue
from tests.support.store_runs import (
    a_checkpoint,
    a_reserved_run,
    a_root,
    begin,
    execute,
    publish,
    write_report,
)
from tests.unit.coordinator.conftest import RunMaker
from tests.unit.coordinator.test_start import plan


def no_plan(request: Request) -> Planned:
    raise AssertionError("planned a sealed run")


def look(run_dir: Path, **wish: object) -> Resumable:
    return examine(run_dir, Wish(**wish), plan=no_plan, now=lambda: T0)  # type: ignore[arg-type]


def resume(run_dir: Path, **wish: object) -> Resumed:
    return go_on(look(run_dir, **wish), reason="why", by="me", at=T0)


def names(resumed: Resumed) -> list[tuple[str, int]]:
    return [(each.task_id, each.attempt) for each in breadth_first(resumed.seen.work)]


def records(run_dir: Path) -> list[tuple[str, int]]:
    return [(record.action, record.leg) for record in control.control_records(run_dir)]


def finished(make_run: RunMaker, *ids: str, k: int = 1, **issues: Issue) -> Path:
    """Return a run that is over; `a=issue` gives task a an issue in its last attempt."""
    run_dir = make_run(*ids, k=k).address.run_dir
    for task_id in ids:
        for attempt in range(1, k + 1):
            own = [issues[task_id]] if task_id in issues and attempt == k else []
            metrics = {} if own and own[0].severity != "warning" else {"correct": False}
            result = a_result(task_id, attempt, issues=own, metrics=metrics)
            execute(run_dir, task_id, attempt, result)
    write_report(run_dir)
    return run_dir


class TestPlainResume:
    def test_it_opens_a_leg_for_what_has_no_result(self, make_run: RunMaker) -> None:
        run_dir = make_run("a", "b").address.run_dir
        execute(run_dir, "a")

        got = resume(run_dir)

        assert (got.leg, names(got)) == (2, [("b", 1)])
        assert records(run_dir) == [("resume", 2)]

    def test_resuming_a_finished_run_three_times_changes_nothing(self, make_run: RunMaker) -> None:
        run_dir = finished(make_run, "a", "b")
        before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}

        for _ in range(3):
            assert names(resume(run_dir)) == []

        assert before == {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}

    def test_errors_are_results_and_are_not_run_again(self, make_run: RunMaker) -> None:
        run_dir = finished(make_run, "a", "b", a=an_issue(), b=an_issue("fatal"))

        assert names(resume(run_dir)) == []

    @pytest.mark.parametrize("stop", [cancel, pause, interrupt])
    def test_a_stopped_run_is_open_again(self, make_run: RunMaker, stop: object) -> None:
        run_dir = make_run("a").address.run_dir
        stop(run_dir, reason="", by="me", at=T0)  # type: ignore[operator]

        got = resume(run_dir)

        assert control.legs(run_dir).state == "open"
        assert control.legs(run_dir).is_open(got.leg)
        assert run_info.load(run_dir).status == "running"

    def test_temporary_files_of_writers_that_died_are_removed(self, make_run: RunMaker) -> None:
        run_dir = make_run("a", "b").address.run_dir
        left = begin(run_dir, "a").directory / ".tmp-0123"
        left.write_text("half a re")
        os.utime(left, (0, 0))

        resume(run_dir)

        assert not left.exists()

    def test_two_at_once_open_two_legs_with_the_same_work(self, make_run: RunMaker) -> None:
        run_dir = make_run("a").address.run_dir
        one, other = look(run_dir), look(run_dir)

        legs = [go_on(each, reason="", by="me", at=T0).leg for each in (one, other)]

        assert legs == [2, 3]
        assert control.legs(run_dir).is_open(2)
        assert check_run(run_dir) == []

    def test_a_run_interrupted_while_planned_is_planned_and_starts_in_its_first_leg(
        self, tmp_path: Path
    ) -> None:
        run_dir = a_reserved_run(tmp_path)

        ready = examine(run_dir, Wish(), plan=lambda _: plan(), now=lambda: T0)

        assert names(go_on(ready, reason="", by="me", at=T0)) == [("a", 1), ("b", 1)]

    def test_a_directory_without_run_info_never_started(self, tmp_path: Path) -> None:
        run_dir = a_root(tmp_path).path / "empty"
        run_dir.mkdir()

        with pytest.raises(RunNotFound, match="never started"):
            look(run_dir)

    def test_another_writers_run_is_refused_with_a_code(self, tmp_path: Path) -> None:
        run_dir = a_root(tmp_path).path / "theirs"
        run_dir.mkdir()
        (run_dir / "run_info.json").write_text('{"schema_version": "agentcompass.run_info.v3"}')

        with pytest.raises(Refusal) as caught:
            look(run_dir)

        assert caught.value.code == "other_writer"


class TestRerun:
    def test_an_error_in_one_attempt_runs_the_whole_task_again(self, make_run: RunMaker) -> None:
        run_dir = finished(make_run, "a", "b", k=3, a=an_issue())

        got = resume(run_dir, rerun=["errored"])

        assert names(got) == [("a", 1), ("a", 2), ("a", 3)]
        assert records(run_dir) == [("rerun", 2)]

    def test_the_old_evidence_goes_to_retries_and_out_of_the_numbers(
        self, make_run: RunMaker
    ) -> None:
        run_dir = finished(make_run, "a", a=an_issue())

        resume(run_dir, rerun=["errored"])

        found = attempts.find_task(run_dir, "a")
        assert found is not None
        assert found[0] == "running"
        assert [path.parent.name for path in found[1].rglob("result*.json")] == ["leg-1"]
        assert check_run(run_dir) == []

    def test_unscored_leaves_zeros_and_warnings_alone(self, make_run: RunMaker) -> None:
        run_dir = finished(
            make_run, "zero", "warned", "none", warned=an_issue("warning"), none=an_issue()
        )

        assert names(resume(run_dir, rerun=["unscored"])) == [("none", 1)]

    def test_a_task_is_run_again_by_its_id(self, make_run: RunMaker) -> None:
        run_dir = finished(make_run, "a", "b")

        ready = look(run_dir, rerun=["b"])

        assert [(each.task_id, each.reason) for each in ready.reruns] == [("b", "asked for")]

    def test_a_snapshot_is_found_while_its_task_is_filed(
        self, make_run: RunMaker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = make_run("a", k=2).address.run_dir
        view = begin(run_dir, "a")
        attempts.write_snapshot(view, a_checkpoint(view))
        publish(run_dir, view, a_result("a", token=view.token, issues=[an_issue(phase="evaluate")]))
        real = attempts.load_checkpoint

        def overtaken(directory: Path) -> Checkpoint | None:
            monkeypatch.undo()
            execute(run_dir, "a", 2)
            return real(directory)

        monkeypatch.setattr(attempts, "load_checkpoint", overtaken)
        why = snapshots_of(run_dir, look(run_dir).seen)

        assert why("a", 1, None) == ""
        assert why("nowhere", 1, None) == "there is no snapshot"

    def test_an_unknown_task_is_named_with_the_nearest_word(self, make_run: RunMaker) -> None:
        with pytest.raises(UsageError, match="did you mean 'errored'"):
            look(finished(make_run, "a"), rerun=["errord"])

    def test_looking_at_what_would_be_run_again_changes_nothing(self, make_run: RunMaker) -> None:
        run_dir = finished(make_run, "a", a=an_issue())

        ready = look(run_dir, rerun=["errored"])

        assert ready.reruns[0].reason == "errored: attempt 1: run run_failed"
        assert records(run_dir) == []

    def test_a_half_applied_rerun_is_completed_by_the_next_resume(self, make_run: RunMaker) -> None:
        run_dir = finished(make_run, "a", a=an_issue())
        resume(run_dir, rerun=["errored"])
        where = attempts.find_task(run_dir, "a")
        assert where is not None
        evidence = next(where[1].rglob("result-*.json"))
        shutil.move(evidence, where[1] / "attempt-1" / "result.json")  # as before the move
        shutil.move(where[1], run_dir / "details" / "error" / where[1].name)

        assert names(resume(run_dir)) == [("a", 1)]
        assert not list((run_dir / "details" / "error").iterdir())


def corrupt(run_dir: Path, task_id: str) -> Path:
    path = attempts.result_of(run_dir, task_id, 1)
    assert path is not None
    path.write_bytes(b"{")
    return path


class TestMalformed:
    def test_every_malformed_result_is_listed_and_nothing_is_changed(
        self, make_run: RunMaker
    ) -> None:
        run_dir = make_run("a", "b", "c").address.run_dir
        for task_id in ("a", "b"):
            execute(run_dir, task_id)
        paths = [corrupt(run_dir, task_id) for task_id in ("a", "b")]

        with pytest.raises(RecordCorrupt) as caught:
            look(run_dir)

        assert [path for path, _ in caught.value.problems] == paths
        assert records(run_dir) == []

    def test_quarantine_runs_exactly_those_attempts_again(self, make_run: RunMaker) -> None:
        run_dir = finished(make_run, "a", "b")
        corrupt(run_dir, "a")

        got = resume(run_dir, quarantine=True)

        assert names(got) == [("a", 1)]
        assert records(run_dir) == [("quarantine", 2)]
        assert check_run(run_dir) == []

    def test_r23_a_torn_checkpoint_of_what_is_left_is_named_and_can_be_put_aside(
        self, make_run: RunMaker
    ) -> None:
        run_dir = make_run("a", "b").address.run_dir
        view = begin(run_dir, "a")
        attempts.write_snapshot(view, a_checkpoint(view))
        torn = view.directory / "checkpoint.json"
        torn.write_bytes(torn.read_bytes()[:-9])

        with pytest.raises(RecordCorrupt) as caught:
            look(run_dir)

        assert [path for path, _ in caught.value.problems] == [torn]
        assert names(resume(run_dir, quarantine=True)) == [("a", 1), ("b", 1)]
        assert records(run_dir) == [("quarantine", 2)]
        assert len(list(run_dir.rglob("retries/quarantine-*/checkpoint.json"))) == 1

    def test_a_quarantine_that_died_before_it_moved_is_completed(self, make_run: RunMaker) -> None:
        run_dir = finished(make_run, "a", "b")
        data = corrupt(run_dir, "a").read_bytes()
        resume(run_dir, quarantine=True)
        begun = begin(run_dir, "a", leg=2, valid_from_leg=2)
        (begun.directory / "result.json").write_bytes(data)

        assert names(resume(run_dir, quarantine=True)) == [("a", 1)]

    def test_the_result_of_another_attempt_is_malformed_here(self, make_run: RunMaker) -> None:
        run_dir = make_run("a", "b").address.run_dir
        execute(run_dir, "a")
        path = attempts.result_of(run_dir, "a", 1)
        assert path is not None
        path.write_bytes(path.read_bytes().replace(b'"task_id":"a"', b'"task_id":"b"'))

        with pytest.raises(RecordCorrupt, match="is the result of 'b'"):
            look(run_dir)


class TestPolicy:
    def test_what_may_change_is_recorded_for_the_new_leg(self, make_run: RunMaker) -> None:
        run_dir = make_run("a").address.run_dir
        changes: JsonObject = {
            "execution": {"run_timeout_s": 9, "max_failed_tasks": 5},
            "runtime": {"workers": 8, "pool": "threads"},
        }

        got = resume(run_dir, changes=changes)

        assert got.seen.execution.run_timeout_s == 9
        assert got.seen.runtime.workers == 8
        assert control.control_records(run_dir)[0].policy is not None

    def test_the_next_resume_keeps_it(self, make_run: RunMaker) -> None:
        run_dir = make_run("a").address.run_dir
        resume(run_dir, changes={"runtime": {"workers": 8}})

        assert resume(run_dir, changes={"runtime": {"pool": "threads"}}).seen.runtime.workers == 8

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"benchmark": "other"}, "benchmark.id"),
            ({"model": {"id": "m2"}}, "model.id"),
            ({"execution": {"attempts": {"k": 5}}}, "execution.attempts.k"),
            ({"selection": {"limit": 3}}, "selection.limit"),
        ],
    )
    def test_what_is_frozen_is_refused_by_its_name(
        self, make_run: RunMaker, changes: JsonObject, field: str
    ) -> None:
        run_dir = make_run("a").address.run_dir

        with pytest.raises(Refusal, match=f"cannot change {field} from") as caught:
            look(run_dir, changes=changes)

        assert caught.value.code == "field_frozen"
        assert records(run_dir) == []
