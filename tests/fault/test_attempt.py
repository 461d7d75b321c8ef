"""The life of an attempt: whichever call a machine or its disk fails in, a second worker ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.models.checkpoint import ArtifactManifest
from agentcompass.store import attempts, filing, run_info
from agentcompass.store.attempts import AttemptView
from agentcompass.store.check import check_run
from tests.builders import a_result, an_issue
from tests.fault.faulty_os import at_every_call
from tests.support.store_runs import (
    a_checkpoint,
    a_run,
    begin,
    decide,
    execute,
    plan_of,
    publish,
    reduce,
    write_report,
)

pytestmark = pytest.mark.timeout(300)

OURS, THEIRS = "o" * 16, "t" * 16


def collect(view: AttemptView, source: Path) -> ArtifactManifest:
    directory, recorded = attempts.artifacts_directory(view)
    source.mkdir(exist_ok=True)
    (source / "log.txt").write_text("what the agent said")
    entry = attempts.collect_tree(source, directory / "logs").entry("logs", "logs")
    return ArtifactManifest(directory=recorded, entries=(entry,))


def whole_life(run_dir: Path, token: str = OURS, *, correct: bool = True) -> None:
    """Begin, collect, snapshot, publish: what one execution does, its retry included."""
    view = begin(run_dir, token=token)
    if view.is_published:
        return
    for earlier in view.marks:
        attempts.keep_execution(view, earlier.token)
    bad = a_result(token=token, issues=[an_issue()])
    attempts.keep_retry(view, 1, bad)
    manifest = collect(view, run_dir.parent / f"work-{token}")
    attempts.write_snapshot(view, a_checkpoint(view, manifest=manifest))
    good = a_result(token=token, metrics={"correct": correct})
    artifacts = {"collected": {"directory": manifest.directory}}
    publish(run_dir, view, good.model_copy(update={"artifacts": artifacts}))


def test_an_attempt_is_published_whole_or_not_at_all_and_a_second_worker_ends_it(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_dir, trace in at_every_call(tmp_path, monkeypatch, fault, a_run, whole_life):
        ours_counts = attempts.is_published(run_dir, "task-1", 1)
        assert check_run(run_dir) == [], trace

        whole_life(run_dir, THEIRS, correct=False)
        filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir))

        path = attempts.result_of(run_dir, "task-1", 1)
        assert path is not None
        result = attempts.load_result(path)
        assert result.token == (OURS if ours_counts else THEIRS), trace
        assert write_report(run_dir).status == "completed", trace
        assert check_run(run_dir, deep=True) == [], trace


def test_siblings_survive_a_fault_in_the_last_attempt_and_its_filing(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        run_dir = a_run(place, k=2)
        failed = a_result(token="s" * 16, issues=[an_issue()], metrics={"correct": False})
        execute(run_dir, attempt=1, result=failed)
        return run_dir

    def last(run_dir: Path) -> object:
        return execute(run_dir, attempt=2)

    for run_dir, trace in at_every_call(tmp_path, monkeypatch, fault, prepare, last):
        assert check_run(run_dir) == [], trace
        execute(run_dir, attempt=2)
        assert filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir)) == "error", trace
        assert check_run(run_dir) == [], trace


def test_a_rerun_gives_up_the_old_result_for_a_new_one_only(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        run_dir = a_run(place)
        execute(run_dir, result=a_result(metrics={"correct": False}))
        decide(run_dir, "rerun", ("task-1", 1))
        return run_dir

    def rerun(run_dir: Path) -> None:
        filing.reopen(run_dir, "task-1", {1: 2})
        view = begin(run_dir, token=OURS, leg=2, valid_from_leg=2)
        if not view.is_published:
            publish(run_dir, view, a_result(token=OURS, leg=2))

    for run_dir, trace in at_every_call(tmp_path, monkeypatch, fault, prepare, rerun):
        assert check_run(run_dir) == [], trace
        rerun(run_dir)
        filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir))
        assert reduce(run_dir).headline.value == 1.0, trace
        assert check_run(run_dir) == [], trace


def test_the_report_is_written_or_written_again(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(place: Path) -> Path:
        run_dir = a_run(place, "a", "b")
        execute(run_dir, "a")
        execute(run_dir, "b")
        return run_dir

    for run_dir, trace in at_every_call(tmp_path, monkeypatch, fault, prepare, write_report):
        assert check_run(run_dir) == [], trace
        assert run_info.refresh(run_dir).status in {"running", "completed"}
        assert check_run(run_dir) == [], trace
        assert write_report(run_dir).status == "completed", trace
        assert check_run(run_dir) == [], trace
