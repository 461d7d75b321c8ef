from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.errors import RecordCorrupt, RunNotFound
from agentcompass.metrics.usage import Spend
from agentcompass.models.result import AttemptMeta
from agentcompass.store import attempts, control, disk, filing, layout, results, run_info, scan
from agentcompass.store.legs import Legs
from agentcompass.store.names import task_dirname
from tests.builders import T0, a_result, an_outcome
from tests.support.store_runs import (
    a_checkpoint,
    a_run,
    begin,
    decide,
    execute,
    publish,
)


def pending(run_dir: Path) -> dict[str, tuple[int, ...]]:
    info = run_info.load(run_dir)
    found = scan.pending(run_dir, info, scan.scan(run_dir))
    return {entry.task_id: numbers for entry, numbers in found}


def test_a_scan_tells_what_stands_where(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a", "b", "c", k=2)
    for attempt in (1, 2):
        execute(run_dir, "a", attempt)
    execute(run_dir, "b", 2)
    view = begin(run_dir, "b", 1)
    attempts.write_snapshot(view, a_checkpoint(view))

    found = scan.scan(run_dir)

    a, b = found.get("a"), found.get("b")
    assert a == scan.TaskScan("normal", frozenset({1, 2}), frozenset())
    assert b == scan.TaskScan("running", frozenset({2}), frozenset({1}))
    assert found.get("c") is None
    assert found.published == 3
    assert found.is_published("a", 1)
    assert not found.is_published("c", 1)
    assert found.has_checkpoint("b", 1)
    assert not found.has_checkpoint("a", 1)


def test_pending_is_plan_minus_what_is_over_or_cancelled(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a", "b", "c", k=2)
    execute(run_dir, "a", 1)
    for attempt in (1, 2):
        execute(run_dir, "b", attempt)
    decide(run_dir, "cancel", ("c", 2))

    assert pending(run_dir) == {"a": (2,), "c": (1,)}


def test_a_result_that_was_reopened_is_pending_again(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a", "b")
    execute(run_dir, "a")
    execute(run_dir, "b")

    decide(run_dir, "rerun", ("a", 1))
    assert pending(run_dir) == {"a": (1,)}

    decide(run_dir, "rerun")
    assert pending(run_dir) == {"a": (1,), "b": (1,)}


def test_a_filed_copy_goes_before_a_leftover(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    layout.task_dir(run_dir, "running", "task-1").mkdir()

    found = scan.scan(run_dir).get("task-1")

    assert found is not None
    assert found == scan.TaskScan("normal", frozenset({1}), frozenset())


def test_a_task_that_is_filed_during_the_scan_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path)
    begin(run_dir)
    real = scan._Eye._probe

    def moved_first(*arguments: object) -> object:
        monkeypatch.undo()
        execute(run_dir, result=a_result(token="o" * 16))
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(scan._Eye, "_probe", moved_first)

    assert scan.scan(run_dir).is_published("task-1", 1)


def test_a_task_that_is_filed_between_listing_and_probing_is_not_taken_for_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path, k=2)
    execute(run_dir, attempt=1)
    real = scan._counts

    def moved_first(path: str, first_leg: int) -> bool:
        monkeypatch.undo()
        execute(run_dir, attempt=2)
        return real(path, first_leg)

    monkeypatch.setattr(scan, "_counts", moved_first)

    assert scan.scan(run_dir).published == 2


def test_a_result_that_is_retired_while_its_leg_is_read_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    decide(run_dir, "rerun", ("task-1", 1))
    real = results.load_outcome

    def retired_first(path: Path) -> results.ResultHead:
        monkeypatch.undo()
        filing.reopen(run_dir, "task-1", {1: 2})
        return real(path)

    monkeypatch.setattr(results, "load_outcome", retired_first)

    assert scan.scan(run_dir).published == 0


def test_a_task_that_vanishes_during_the_scan_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path)
    real = disk.directories

    def with_one_more(path: Path) -> list[str]:
        return [*real(path), "gone"] if Path(path).name in layout.STATES else real(path)

    monkeypatch.setattr(disk, "directories", with_one_more)

    assert scan.scan(run_dir).tasks == {}


def test_links_are_not_followed(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    (tmp_path / "elsewhere" / "attempt-1").mkdir(parents=True)
    (tmp_path / "elsewhere" / "attempt-1" / "result.json").write_text("{}")
    layout.task_dir(run_dir, "normal", "task-1").symlink_to(tmp_path / "elsewhere")

    assert scan.scan(run_dir).tasks == {}
    assert attempts.find_task(run_dir, "task-1") is None


def test_a_directory_that_is_no_attempt_is_none(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    (layout.task_dir(run_dir, "normal", "task-1") / "attempt-0").mkdir()

    assert scan.scan(run_dir).published == 1


def test_without_a_run_there_is_nothing_to_scan(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        scan.scan(tmp_path)


class TestOutcomes:
    def test_they_come_in_frozen_order_with_what_is_missing(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "b", "a", k=2)
        execute(run_dir, "a", 1, a_result("a", metrics={"correct": False}))
        execute(run_dir, "a", 2)

        found = list(scan.outcomes(run_dir, run_info.load(run_dir)))

        assert [task.task_id for task in found] == ["b", "a"]
        assert found[0].attempts == (None, None)
        assert found[1].attempts == (an_outcome(correct=False), an_outcome(correct=True))

    def test_coverage_tells_the_latest_end_and_what_is_missing(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        execute(run_dir, "a")
        coverage = scan.Coverage("0" * 64, T0)

        list(scan.outcomes(run_dir, run_info.load(run_dir), coverage=coverage))

        assert coverage.generated_at == a_result().finished_at
        assert (coverage.results, coverage.missing) == (1, 1)

    def test_results_of_other_legs_and_stops_are_no_outcomes(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b", "c")
        stopped = a_result("a").model_copy(update={"status": "cancelled"})
        view = begin(run_dir, "a")
        publish(run_dir, view, stopped)
        execute(run_dir, "b")
        execute(run_dir, "c")
        decide(run_dir, "rerun", ("b", 1))

        found = list(scan.outcomes(run_dir, run_info.load(run_dir)))

        assert [task.attempts[0] for task in found] == [None, None, an_outcome(correct=True)]

    def test_a_task_that_is_filed_while_it_is_read_is_looked_up_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path, k=2)
        execute(run_dir, attempt=1)
        real = disk.find

        def find_and_file(path: Path, dirname: str) -> object:
            where = real(path, dirname)
            monkeypatch.undo()
            execute(run_dir, attempt=2)
            return where

        monkeypatch.setattr(disk, "find", find_and_file)
        (found,) = scan.outcomes(run_dir, run_info.load(run_dir), control.legs(run_dir))

        assert found.attempts == (an_outcome(correct=True),) * 2

    def test_a_torn_result_stops_with_its_name(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        path = attempts.result_of(run_dir, "task-1", 1)
        assert path is not None
        path.write_text("")

        with pytest.raises(RecordCorrupt, match="is empty"):
            list(scan.outcomes(run_dir, run_info.load(run_dir)))

    def test_every_result_that_cannot_be_relied_on_is_named(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b", "c", "d")
        for task_id in "abcd":
            execute(run_dir, task_id)
        for task_id in "ac":
            path = attempts.result_of(run_dir, task_id, 1)
            assert path is not None
            path.write_text("")
        stray = attempts.result_of(run_dir, "d", 1)
        assert stray is not None
        stray.write_bytes(stray.read_bytes().replace(b'"task_id":"d"', b'"task_id":"b"'))

        with pytest.raises(RecordCorrupt) as caught:
            list(scan.heads(run_dir, run_info.load(run_dir)))

        assert [reason for _, reason in caught.value.problems] == [
            *("is empty", "is empty", "is the result of 'b', attempt 1"),
        ]

    def test_heads_say_where_the_task_is_and_what_it_cost(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        meta = AttemptMeta(harness={"telemetry": {"usage": {"input_tokens": 7}, "cost_usd": 0.5}})
        execute(run_dir, "a", 1, a_result("a").model_copy(update={"meta": meta}))

        done, absent = scan.heads(run_dir, run_info.load(run_dir))

        assert done.directory == str(layout.task_dir(run_dir, "normal", "a"))
        (head,) = done.heads
        assert head is not None
        assert head.spend == Spend(input_tokens=7, cost_usd=0.5)
        assert (head.duration_s, head.reused_from, head.is_on_disk) == (90.0, "", True)
        assert (absent.directory, absent.heads) == (None, (None,))

    def test_nothing_was_executed_for_an_attempt_that_was_skipped(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir, result=a_result().model_copy(update={"status": "skipped"}))

        (task,) = scan.heads(run_dir, run_info.load(run_dir))

        assert task.heads[0] is not None
        assert (task.heads[0].spend, task.heads[0].duration_s) == (None, None)

    def test_details_are_the_results_that_count_without_trajectories(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b", "c")
        execute(run_dir, "a")
        execute(run_dir, "c")
        decide(run_dir, "rerun", ("c", 1))

        found = list(scan.details(run_dir, run_info.load(run_dir)))

        assert [result.task_id for result in found] == ["a"]
        assert found[0].trajectory is None


class TestDigest:
    def digest(self, run_dir: Path) -> str:
        return scan.results_digest(scan.scan(run_dir))

    def test_it_is_the_same_in_every_order_and_under_every_name_of_execution(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "one").mkdir()
        (tmp_path / "other").mkdir()
        one, other = a_run(tmp_path / "one", "a", "b"), a_run(tmp_path / "other", "a", "b")
        execute(one, "a")
        execute(one, "b")
        execute(other, "b", result=a_result("b", token="x" * 9))
        execute(other, "a")

        assert self.digest(one) == self.digest(other)

    def test_every_change_of_what_counts_changes_it(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        seen = [self.digest(run_dir)]
        execute(run_dir, "a")
        seen.append(self.digest(run_dir))
        decide(run_dir, "rerun", ("a", 1))
        filing.reopen(run_dir, "a", {1: 2})
        execute(run_dir, "a", result=a_result("a", leg=2))
        seen.append(self.digest(run_dir))
        decide(run_dir, "cancel", ("b", 1))
        seen.append(self.digest(run_dir))

        assert len(set(seen)) == 4

    def test_filing_does_not_change_it(self) -> None:
        name = task_dirname("a")
        running = scan.RunScan(
            {name: scan.TaskScan("running", frozenset({1}), frozenset())}, Legs()
        )
        filed = scan.RunScan({name: scan.TaskScan("error", frozenset({1}), frozenset())}, Legs())

        assert scan.results_digest(running) == scan.results_digest(filed)


def test_a_task_that_never_rests_is_passed_over_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path)
    begin(run_dir)
    monkeypatch.setattr(disk, "is_directory", lambda _path: False)
    monkeypatch.setattr(disk, "find", lambda _run, _name: ("running", "elsewhere"))

    assert scan.scan(run_dir).tasks == {}


def test_a_task_that_vanishes_while_it_is_read_has_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path)
    places = [None, ("running", str(tmp_path / "gone"))]
    monkeypatch.setattr(disk, "find", lambda _run, _name: places.pop())

    (task,) = scan.outcomes(run_dir, run_info.load(run_dir))

    assert task.attempts == (None,)
