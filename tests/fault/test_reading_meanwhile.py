"""Readers look at a run while others write it: the other's move is made at the worst moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from agentcompass.cli import watch
from agentcompass.coordinator.reading.run import open_run
from agentcompass.coordinator.reading.shown import attempt_lines, find_task, load_attempt
from agentcompass.coordinator.report import read, report
from agentcompass.coordinator.runs import opened
from agentcompass.coordinator.spending.account import Account
from agentcompass.coordinator.status import status
from agentcompass.models.checkpoint import ArtifactManifest
from agentcompass.models.result import AttemptMeta
from agentcompass.runtime.finalize import Finalized, Wanted, finalize
from agentcompass.store import (
    artifacts,
    attempts,
    check,
    check_tasks,
    disk,
    filing,
    layout,
    records,
    results,
    run_info,
    scan,
)
from agentcompass.store import report as report_files
from agentcompass.store.check import Violation, check_run
from agentcompass.store.export import copy
from agentcompass.store.export.copy import write_copy
from agentcompass.store.foreign import open_foreign
from agentcompass.store.overview import overview
from agentcompass.store.report import Override, expected_of, load_covered, load_written
from tests.builders import T0, a_result, an_issue
from tests.support import golden_runs as theirs
from tests.support.measured import a_measured_run
from tests.support.metrics import RIGHT, WRONG
from tests.support.store_runs import TOKEN, a_checkpoint, a_run, begin, decide, execute, publish


class Other:
    """Somebody else, who makes one move right before our nth call of a function."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.has_moved = False

    def moves(
        self,
        move: Callable[[], object],
        owner: object,
        name: str,
        when: Callable[..., bool] = lambda *_, **__: True,
        *,
        nth: int = 1,
    ) -> None:
        """Let `move` happen once, before the nth call with such arguments."""
        real, calls = getattr(owner, name), 0

        def moved(*args: object, **kwargs: object) -> object:
            nonlocal calls
            if not self.has_moved and when(*args, **kwargs):
                calls += 1
                if calls == nth:
                    self.has_moved = True
                    move()
            return real(*args, **kwargs)

        self._patch.setattr(owner, name, moved)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[Other]:
    """Somebody who has made a move when the test is over."""
    one = Other(monkeypatch)
    yield one
    assert one.has_moved


def of(*parts: str) -> Callable[..., bool]:
    """Return whether a call's first argument names all of these."""
    return lambda path, *_, **__: all(part in str(path) for part in parts)


class TestCheck:
    def test_a_decision_is_published_while_the_others_are_listed(
        self, tmp_path: Path, other: Other
    ) -> None:
        run_dir = a_run(tmp_path)
        decide(run_dir, "resume")
        other.moves(lambda: decide(run_dir, "pause"), os, "scandir", of("/control"), nth=2)

        assert check_run(run_dir) == []

    def test_records_of_odd_names_are_a_gap(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        decide(run_dir, "resume")
        control = run_dir / "control"
        (control / "0000.json").write_bytes((control / "0001.json").read_bytes())

        assert {each.invariant for each in check_run(run_dir)} == {"INV-7"}

    def test_the_run_is_resumed(self, tmp_path: Path, other: Other) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        begin(run_dir, "a")

        def resume() -> None:
            decide(run_dir, "resume")
            execute(run_dir, "b", result=a_result("b", leg=2, token=TOKEN))

        other.moves(resume, check_tasks._Judge, "task")

        assert check_run(run_dir) == []

    def test_a_worker_begins(self, tmp_path: Path, other: Other) -> None:
        run_dir = a_run(tmp_path)
        made = layout.task_dir(run_dir, "running", "task-1")
        made.mkdir()
        other.moves(lambda: begin(run_dir), disk, "names", of(str(made)))

        assert check_run(run_dir) == []

    def test_a_task_is_run_again_and_ends_otherwise(self, tmp_path: Path, other: Other) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)

        def rerun() -> None:
            decide(run_dir, "rerun", ("task-1", 1))
            filing.reopen(run_dir, "task-1", {1: 2})
            view = begin(run_dir, token="r" * 8, leg=2, valid_from_leg=2)
            publish(run_dir, view, a_result(token=view.token, leg=2, issues=[an_issue()]))

        other.moves(rerun, disk, "directories", of("details/error"))

        assert check_run(run_dir) == []

    def test_a_result_comes_while_the_others_are_reduced(
        self, tmp_path: Path, other: Other
    ) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        execute(run_dir, "a")
        finalize(run_dir, wanted=Wanted(may_be_partial=True))
        other.moves(lambda: execute(run_dir, "b"), check, "build_report")

        assert check_run(run_dir) == []

    def test_the_run_ends_while_its_report_is_read(self, tmp_path: Path, other: Other) -> None:
        run_dir = a_run(tmp_path, "a", "b")
        execute(run_dir, "a")
        finalize(run_dir, wanted=Wanted(may_be_partial=True))

        def end() -> None:
            execute(run_dir, "b")
            finalize(run_dir)

        other.moves(end, check, "results_digest")

        assert check_run(run_dir) == []

    def test_a_snapshot_is_filed_while_it_is_digested(self, tmp_path: Path, other: Other) -> None:
        run_dir = a_run(tmp_path, k=2)
        view = begin(run_dir)
        own, recorded = attempts.artifacts_directory(view)
        (own / "log").write_text("kept")
        entry = artifacts.digest_tree(own / "log").entry("log", "log")
        manifest = ArtifactManifest(directory=recorded, complete=True, entries=(entry,))
        attempts.write_snapshot(view, a_checkpoint(view, manifest=manifest))
        publish(run_dir, view)
        other.moves(lambda: execute(run_dir, attempt=2), artifacts, "digest_tree")

        assert check_run(run_dir, deep=True) == []

    def test_a_malformed_result_was_put_aside_and_its_task_is_not_back_yet(
        self, tmp_path: Path
    ) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        path = attempts.result_of(run_dir, "task-1", 1)
        assert path is not None
        path.write_bytes(b"{")
        decide(run_dir, "quarantine", ("task-1", 1))
        filing.quarantine(path)

        assert check_run(run_dir) == []

    def test_a_client_of_nfs_has_a_replaced_file_open(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        (layout.task_dir(run_dir, "normal", "task-1") / "attempt-1" / ".nfs0001").touch()

        assert check_run(run_dir) == []

    def test_a_run_in_which_nothing_is_wrong_is_looked_at_once(
        self, measured: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks: list[Path] = []
        real = check._look

        def counted(run_dir: Path, *, deep: bool) -> list[Violation]:
            looks.append(run_dir)
            return real(run_dir, deep=deep)

        monkeypatch.setattr(check, "_look", counted)

        assert check_run(measured) == []
        assert looks == [measured]


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


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A run that is over, with its report."""
    outcomes = {"a": (RIGHT,), "b": (RIGHT,), "c": (WRONG,)}
    run_dir = a_measured_run(tmp_path, outcomes, categories={"a": "x", "b": "x", "c": "y"})
    finalize(run_dir)
    return run_dir


class Killed(BaseException):
    """A process ends here."""


def die() -> None:
    raise Killed


class TestTwoFormulas:
    TREE = Override(
        "category_hierarchy",
        {"type": "weighted", "weights": {"x": 1, "y": 3}, "children": ["x", "y"]},
    )

    @pytest.fixture(params=[Override("category_mean"), TREE], ids=["mean", "tree"])
    def override(self, request: pytest.FixtureRequest) -> Override:
        assert isinstance(request.param, Override)
        return request.param

    def write(self, run_dir: Path, override: Override | None) -> None:
        finalize(run_dir, wanted=Wanted(override, is_anew=True, may_be_partial=True))

    def write_half(self, run_dir: Path, override: Override) -> None:
        """Write the metrics and go, as a process that is killed then."""
        with pytest.MonkeyPatch.context() as patch:
            Other(patch).moves(die, report_files, "replace_if_other", of("summary.md"))
            with pytest.raises(Killed):
                self.write(run_dir, override)

    def test_a_report_that_is_overtaken_is_made_again(
        self, measured: Path, other: Other, override: Override
    ) -> None:
        # Both metrics before both notes: ours is the last, and speaks of what is not there any more.
        other.moves(
            lambda: self.write(measured, override),
            report_files,
            "replace_if_other",
            of("summary.md"),
        )

        made = report(measured)

        assert (made.is_over, made.exit_code) == (True, 0)
        assert load_covered(measured) is not None
        assert check_run(measured) == []

    def test_half_of_a_report_is_nobodys_fault(self, measured: Path, override: Override) -> None:
        self.write_half(measured, override)

        assert check_run(measured) == []
        assert run_info.refresh(measured).status == "running"
        assert report(measured).is_over

    def test_a_run_that_is_looked_at_meanwhile_has_not_failed(
        self, measured: Path, other: Other, override: Override
    ) -> None:
        other.moves(lambda: self.write_half(measured, override), report_files, "load_report")

        run_info.refresh(measured)

        self.write(measured, override)
        assert run_info.load(measured).status == "completed"

    def test_the_note_is_replaced_between_the_two_that_belong_together(
        self, measured: Path, other: Other, override: Override
    ) -> None:
        other.moves(lambda: self.write(measured, override), records, "read", of(".covered.json"))

        written = load_written(measured, expected_of(run_info.load(measured)))

        assert written is not None
        assert written.covered is not None
        assert written.covered.report.aggregation == written.report.aggregation


class TestAShareThatIsBehind:
    """A listing of one machine is older than the report that another one has written."""

    @pytest.fixture
    def slept_s(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Task `b` is invisible until somebody has waited three times; how long that was."""
        slept_s: list[float] = []
        real = disk.directories

        def listed(path: str | Path) -> list[str]:
            return [name for name in real(path) if len(slept_s) > 2 or not name.startswith("b--")]

        monkeypatch.setattr(disk, "directories", listed)
        return slept_s

    def test_status_does_not_call_a_result_missing(
        self, measured: Path, slept_s: list[float]
    ) -> None:
        assert status(measured, T0, sleep=slept_s.append).is_complete
        assert len(slept_s) == 3

    def test_the_report_stays_what_it_is(self, measured: Path, slept_s: list[float]) -> None:
        before = (measured / "metrics.json").read_bytes()

        wanted = Wanted(is_anew=True, may_be_partial=True, sleep=slept_s.append)
        done = finalize(measured, wanted=wanted)

        assert isinstance(done, Finalized)
        assert done.info.status == "completed"
        assert (measured / "metrics.json").read_bytes() == before

    def test_what_stays_away_is_believed_to_be_gone(self, measured: Path) -> None:
        gone = attempts.result_of(measured, "b", 1)
        assert gone is not None
        gone.unlink()
        slept_s: list[float] = []

        assert not status(measured, T0, sleep=slept_s.append).is_complete
        assert sum(slept_s) == 60

    def test_nobody_waits_for_a_run_that_goes_on(self, measured: Path) -> None:
        decide(measured, "rerun", ("b", 1))
        filing.reopen(measured, "b", {1: 2})
        slept_s: list[float] = []

        assert not status(measured, T0, sleep=slept_s.append).is_complete
        for _ in range(2):  # over the report before the decision, then over a partial one
            wanted = Wanted(is_anew=True, may_be_partial=True, sleep=slept_s.append)
            done = finalize(measured, wanted=wanted)
            assert isinstance(done, Finalized)
            assert "partial" in done.report.extra
        assert slept_s == []


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
