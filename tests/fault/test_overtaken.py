"""Whoever stood still goes on with an old look: it takes nothing that others have published since."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from agentcompass.models.result import AttemptResult
from agentcompass.store import attempts, evidence, filing, layout
from agentcompass.store.attempts import AttemptView
from agentcompass.store.check import check_run
from tests.builders import a_result, an_issue
from tests.fault.faulty_os import overtaken_at_every_call
from tests.support.store_runs import a_run, begin, decide, execute, plan_of, publish

pytestmark = pytest.mark.timeout(300)

TASK = "task-1"
OLD, NEW = "old", "new"
FIRST_LEGS = {1: 2, 2: 2}


def token_of(run_dir: Path, attempt: int) -> str | None:
    path = attempts.result_of(run_dir, TASK, attempt)
    return attempts.load_result(path).token if path else None


def a_failure(attempt: int) -> AttemptResult:
    return a_result(attempt=attempt, token=f"{OLD}-{attempt}", issues=[an_issue()])


def a_failed_run(place: Path) -> Path:
    run_dir = a_run(place, k=2)
    for attempt in (1, 2):
        execute(run_dir, TASK, attempt, a_failure(attempt))
    return run_dir


def a_reopened_run(place: Path) -> Path:
    run_dir = a_failed_run(place)
    decide(run_dir, "rerun", (TASK, 1), (TASK, 2))
    return run_dir


def reopen(run_dir: Path) -> bool:
    return filing.reopen(run_dir, TASK, FIRST_LEGS)


def begin_again(run_dir: Path, attempt: int) -> AttemptView:
    return begin(run_dir, TASK, attempt, token=f"{NEW}-{attempt}", leg=2, valid_from_leg=2)


def publish_again(run_dir: Path, attempt: int) -> None:
    view = begin_again(run_dir, attempt)
    if not view.is_published:
        publish(run_dir, view, a_result(attempt=attempt, token=view.token, leg=2))


def finish(run_dir: Path) -> None:
    for attempt in (1, 2):
        publish_again(run_dir, attempt)
    assert filing.file_if_terminal(run_dir, TASK, plan_of(run_dir)) == "normal"


@pytest.mark.parametrize("ends", [1, 2], ids=["one attempt", "the whole task"])
def test_a_reopening_takes_no_result_of_the_new_leg(
    ends: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(run_dir: Path) -> None:
        reopen(run_dir)
        for attempt in range(1, ends + 1):
            publish_again(run_dir, attempt)

    for run_dir, trace in overtaken_at_every_call(
        tmp_path, monkeypatch, a_reopened_run, reopen, meanwhile
    ):
        assert token_of(run_dir, 1) == f"{NEW}-1", trace
        assert check_run(run_dir) == [], trace
        finish(run_dir)
        assert [token_of(run_dir, n) for n in (1, 2)] == [f"{NEW}-1", f"{NEW}-2"], trace
        assert sorted(discarded(run_dir)) == [f"{OLD}-1", f"{OLD}-2"], trace
        assert check_run(run_dir) == [], trace


def discarded(run_dir: Path) -> list[str]:
    found = attempts.find_task(run_dir, TASK)
    assert found is not None
    places = [found[1] / layout.attempt_dirname(n) for n in (1, 2)]
    return [head.token for place in places for head in evidence.discarded(place)]


@pytest.mark.parametrize("who", ["resume", "delivery", "late publication"])
@pytest.mark.parametrize("dies_after", [1, 7], ids=["at once", "giving back"])
def test_what_a_reopening_that_died_had_in_its_hands_is_found_again(
    dies_after: int, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[AttemptView] = []

    def meanwhile(run_dir: Path) -> None:
        reopen(run_dir)
        late.append(begin(run_dir, TASK, token="late", leg=2, valid_from_leg=2))
        publish_again(run_dir, 1)

    for run_dir, trace in overtaken_at_every_call(
        tmp_path, monkeypatch, a_reopened_run, reopen, meanwhile, dies_after=dies_after
    ):
        assert check_run(run_dir) == [], trace
        match who:
            case "resume":
                reopen(run_dir)
            case "delivery":
                assert begin_again(run_dir, 1).is_published, trace
            case _:
                assert not publish(run_dir, late[-1], a_result(token="late", leg=2)), trace
        assert token_of(run_dir, 1) == f"{NEW}-1", trace
        assert check_run(run_dir) == [], trace


def test_a_reopened_task_keeps_its_record_and_its_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(run_dir: Path) -> None:
        reopen(run_dir)
        begin_again(run_dir, 1)

    for with_leftover in (False, True):
        place = tmp_path / str(with_leftover)
        place.mkdir()
        prepare = partial(with_a_leftover, a_reopened_run) if with_leftover else a_reopened_run
        for run_dir, trace in overtaken_at_every_call(
            place, monkeypatch, prepare, reopen, meanwhile
        ):
            running = layout.task_dir(run_dir, "running", TASK)
            assert (running / layout.TASK).is_file(), trace
            mark = layout.started_name(f"{NEW}-1")
            assert (running / "attempt-1" / mark).is_file(), trace
            assert check_run(run_dir) == [], trace


def with_a_leftover(prepare: object, place: Path) -> Path:
    assert callable(prepare)
    run_dir: Path = prepare(place)
    leftover = layout.task_dir(run_dir, "running", TASK)
    (leftover / "attempt-1").mkdir(parents=True)
    filed = attempts.find_task(run_dir, TASK)
    assert filed is not None
    (leftover / layout.TASK).write_bytes((filed[1] / layout.TASK).read_bytes())
    return run_dir


def an_unfiled_run(place: Path) -> Path:
    """Return a run with all its results and artifacts, of which nobody has filed the task."""
    run_dir = a_run(place, k=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filing, "file_if_terminal", lambda *_, **__: None)
        for attempt in (1, 2):
            view = begin(run_dir, TASK, attempt, token=f"{OLD}-{attempt}")
            _, recorded = attempts.artifacts_directory(view)
            named = {"artifacts": {"logs": recorded}}
            publish(run_dir, view, a_failure(attempt).model_copy(update=named))
    return run_dir


def test_filing_replaces_no_result_of_a_later_leg_and_files_by_no_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[AttemptView] = []

    def file(run_dir: Path) -> object:
        return filing.file_if_terminal(run_dir, TASK, plan_of(run_dir))

    def run_again(run_dir: Path) -> None:
        decide(run_dir, "rerun", (TASK, 1), (TASK, 2))
        reopen(run_dir)
        publish_again(run_dir, 1)
        begun.append(begin_again(run_dir, 2))

    for run_dir, trace in overtaken_at_every_call(
        tmp_path, monkeypatch, an_unfiled_run, file, run_again
    ):
        if _too_late(trace):
            continue
        assert token_of(run_dir, 1) == f"{NEW}-1", trace
        publish(run_dir, begun[-1], a_result(attempt=2, token=f"{NEW}-2", leg=2))
        assert [token_of(run_dir, n) for n in (1, 2)] == [f"{NEW}-1", f"{NEW}-2"], trace
        assert check_run(run_dir) == [], trace


def _too_late(trace: list[str]) -> bool:
    """Return whether this is between the last look at what is replaced, an open, and the rename.

    No file system has one call for both; nothing that takes its time is in between.
    """
    since_sync = "".join(f" {name}" for name in trace).rpartition(" fsync")[2]
    return since_sync in {
        f" close open{after}" for after in (" fstat", " fstat close", " fstat close replace")
    }
