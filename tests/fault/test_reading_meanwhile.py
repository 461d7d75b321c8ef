"""Readers look at a run while others write it: the other's move is made at the worst moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from agentcompass.cli import watch
from agentcompass.coordinator.reading.run import open_run
from agentcompass.coordinator.reading.shown import attempt_lines, find_task, load_attempt
from agentcompass.coordinator.report import read
from agentcompass.coordinator.runs import opened
from agentcompass.coordinator.spending.account import Account
from agentcompass.coordinator.status import status
from agentcompass.models.result import AttemptMeta
from agentcompass.runtime.finalize import finalize
from agentcompass.store import (
    attempts,
    disk,
    results,
    run_info,
    scan,
)
from agentcompass.store import report as report_files
from agentcompass.store.export import copy
from agentcompass.store.export.copy import write_copy
from agentcompass.store.foreign import open_foreign
from agentcompass.store.overview import overview
from tests.builders import T0, a_result
from tests.fault.others import Killed, Other, die, of
from tests.support import golden_runs as theirs
from tests.support.store_runs import TOKEN, a_run, begin, decide, execute, publish


def test_a_result_is_filed_to_where_it_was_looked_for_first(tmp_path: Path, other: Other) -> None:
    run_dir = a_run(tmp_path, k=2)
    execute(run_dir, attempt=1)
    other.moves(lambda: execute(run_dir, attempt=2), disk, "find")

    (task,) = scan.heads(run_dir, run_info.load(run_dir))

    assert None not in task.heads


@pytest.fixture
def retried(tmp_path: Path) -> Path:
    """A run of one task with two attempts: one is published, after a try that was discarded."""
    run_dir = a_run(tmp_path, k=2)
    view = begin(run_dir)
    result = a_result(token=view.token)
    meta = AttemptMeta(harness={"telemetry": {"cost_usd": 5.0}})
    paid = result.model_copy(update={"meta": meta})
    attempts.keep_retry(view, 1, paid)
    publish(run_dir, view, paid)
    return run_dir


@pytest.mark.parametrize(
    ("name", "what"),
    [("is_directory", "running"), ("directories", "/retries"), ("names", "retry-1")],
)
class TestDiscardedTries:
    """The task is filed while what it holds besides its results is looked at."""

    def test_a_report_counts_what_they_cost(
        self, retried: Path, other: Other, name: str, what: str
    ) -> None:
        other.moves(lambda: execute(retried, attempt=2), disk, name, of(what, "attempt-1"))

        made = read(retried)

        assert not made.is_over
        assert "10.0" in made.text

    def test_an_account_knows_what_they_cost(
        self, retried: Path, other: Other, name: str, what: str
    ) -> None:
        account = Account(retried, run_info.load(retried))
        found = scan.scan(retried)
        other.moves(lambda: execute(retried, attempt=2), disk, name, of(what, "attempt-1"))

        assert account.spent(found, T0).cost_usd == 10.0


def test_a_partial_report_that_cannot_be_made_ends_no_watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = opened(a_run(tmp_path))
    decide(run.address.run_dir, "pause")

    def gone(_run_dir: Path) -> None:
        raise FileNotFoundError("details")

    monkeypatch.setattr(watch, "report", gone)
    watch._report_if_stopped(run)

    assert "no partial report: details" in capsys.readouterr().err


class TestACopyForTheOtherProgram:
    @pytest.fixture
    def half(self, tmp_path: Path) -> Path:
        """A run of one task with two attempts, one of which is over and has artifacts."""
        run_dir = a_run(tmp_path, k=2)
        view = begin(run_dir)
        own, _ = attempts.artifacts_directory(view)
        (own / "log").write_text("kept")
        publish(run_dir, view)
        return run_dir

    @pytest.mark.parametrize(
        ("owner", "name", "what"),
        [
            (disk, "read", "attempt-1/result.json"),
            (disk, "is_directory", "attempt-1/artifacts"),
            (os, "scandir", "attempt-1/artifacts"),
        ],
    )
    def test_a_task_is_filed_while_it_is_copied(
        self, half: Path, tmp_path: Path, other: Other, owner: object, name: str, what: str
    ) -> None:
        other.moves(lambda: execute(half, attempt=2), owner, name, of("running", what))

        assert write_copy(half, tmp_path / "copy") == 1

        (task,) = open_foreign(tmp_path / "copy").tasks
        assert task.state == "normal"
        assert task.directory is not None
        assert sorted(disk.directories(task.directory)) == ["attempt-1", "attempt-2"]
        assert (task.directory / "attempt-1" / "artifacts" / TOKEN / "log").read_text() == "kept"

    def test_a_task_is_filed_between_finding_it_and_reading_it(
        self, half: Path, tmp_path: Path, other: Other
    ) -> None:
        other.moves(lambda: execute(half, attempt=2), copy, "load_result")

        write_copy(half, tmp_path / "copy")

        assert len(list((tmp_path / "copy").glob("details/*/*/*/result.json"))) == 2

    def test_a_run_that_ends_meanwhile_has_no_report_on_what_is_not_in_the_copy(
        self, tmp_path: Path, other: Other
    ) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        execute(run_dir, "a")

        def end() -> None:
            execute(run_dir, "b")
            finalize(run_dir)

        other.moves(end, report_files, "load_written")

        assert write_copy(run_dir, tmp_path / "copy") == 1

        assert not (tmp_path / "copy" / "metrics.json").exists()
        assert open_foreign(tmp_path / "copy").status == ""

    def test_a_report_of_which_only_half_is_there_is_none_yet(
        self, tmp_path: Path, other: Other
    ) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        other.moves(die, report_files, "replace_if_other", of("summary.md"))
        with pytest.raises(Killed):
            finalize(run_dir)

        assert write_copy(run_dir, tmp_path / "copy") == 1
        assert not (tmp_path / "copy" / "metrics.json").exists()


def test_an_attempt_is_shown_that_is_filed_before_its_trajectory_is_read(
    tmp_path: Path, other: Other
) -> None:
    run_dir = a_run(tmp_path, k=2)
    execute(run_dir, attempt=1)
    run = open_run(run_dir)
    other.moves(lambda: execute(run_dir, attempt=2), results, "load_result")

    task, result = load_attempt(run, find_task(run, "task-1"), 1)

    assert (result.attempt, None in task.heads) == (1, False)
    assert "/normal/" in "".join(attempt_lines(task, 1, result, full=False))


class TestAListingOfRuns:
    def test_a_run_is_deleted(self, measured: Path, other: Other) -> None:
        other.moves(lambda: shutil.rmtree(measured), disk, "directories", of("details"))

        line = overview(measured)

        assert (line.state, bool(line.problem)) == ("unreadable", True)

    @pytest.mark.parametrize("states", [["running", "normal"], ["normal", "running"]])
    def test_a_task_is_filed_between_two_countings(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Other, states: list[str]
    ) -> None:
        run_dir = a_run(tmp_path, k=2)
        execute(run_dir, attempt=1)
        listed = str(run_dir / "details")
        second = of(f"{listed}/{states[1]}")
        other.moves(lambda: execute(run_dir, attempt=2), disk, "directories", second)
        last = disk.directories

        def in_this_order(path: str | Path) -> list[str]:
            return states if str(path) == listed else last(path)

        monkeypatch.setattr(disk, "directories", in_this_order)

        assert overview(run_dir).attempts_done == 2

    def test_a_file_goes_while_the_others_are_added_up(
        self, measured: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = overview(measured, with_size=True).size_bytes

        class Gone:
            name, path = ".tmp-1", str(measured / ".tmp-1")

            def is_dir(self, *, follow_symlinks: bool) -> bool:
                return follow_symlinks

            def stat(self, *, follow_symlinks: bool) -> os.stat_result:
                return Path(self.path).stat(follow_symlinks=follow_symlinks)

        real = os.scandir

        @contextmanager
        def listed(path: str | Path) -> Iterator[Iterator[object]]:
            with real(path) as entries:
                yield chain([Gone()], entries)

        monkeypatch.setattr(os, "scandir", listed)

        assert overview(measured, with_size=True).size_bytes == whole


class TestAnotherProgramsRun:
    def task(self, run_dir: Path, state: str) -> Path:
        theirs.their_run_info(run_dir, "a")
        return theirs.their_task(run_dir / "details" / state, "a", theirs.their_result())

    def test_it_files_a_task(self, tmp_path: Path, other: Other) -> None:
        running = self.task(tmp_path, "running")
        filed = tmp_path / "details" / "normal" / running.name
        filed.parent.mkdir()
        other.moves(lambda: running.rename(filed), disk, "read", of("running", "task.json"))

        assert status(tmp_path, T0).done == 1

    def test_it_begins_a_task(self, tmp_path: Path) -> None:
        self.task(tmp_path, "normal")
        (tmp_path / "details" / "running" / ("b--" + "0" * 64)).mkdir(parents=True)

        assert status(tmp_path, T0).done == 1
