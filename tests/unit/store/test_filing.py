from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.errors import RecordCorrupt
from agentcompass.models.checkpoint import ArtifactManifest
from agentcompass.models.issue import Severity
from agentcompass.models.result import AttemptResult
from agentcompass.store import artifacts, atomic, attempts, disk, filing, layout, results
from agentcompass.store.attempts import AttemptView
from agentcompass.store.check import check_run
from agentcompass.store.names import task_dirname
from tests.builders import a_result, an_issue
from tests.support.store_runs import (
    TOKEN,
    a_checkpoint,
    a_run,
    begin,
    decide,
    execute,
    plan_of,
    publish,
    reduce,
)

OTHER = "o" * 16
SAID = f"see details/running/{task_dirname('task-1')}/attempt-1"


def state_of(run_dir: Path, task_id: str = "task-1") -> str | None:
    found = attempts.find_task(run_dir, task_id)
    return found[0] if found else None


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize(
    ("severities", "state"),
    [
        ([], "normal"),
        (["warning"], "normal"),
        (["warning", "error"], "error"),
        (["error", "fatal", "warning"], "fatal"),
    ],
)
def test_a_task_is_filed_under_its_most_severe_issue(
    severities: list[Severity], state: str, tmp_path: Path
) -> None:
    run_dir = a_run(tmp_path, k=2)
    execute(run_dir, attempt=1, result=a_result(issues=[an_issue(each) for each in severities]))
    assert state_of(run_dir) == "running"

    execute(run_dir, attempt=2)

    assert state_of(run_dir) == state
    assert check_run(run_dir) == []


def test_a_task_without_all_its_results_stays(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, k=2)
    assert filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir)) is None
    execute(run_dir, attempt=2)

    assert filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir)) is None
    assert state_of(run_dir) == "running"


def test_filing_again_changes_nothing(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)

    assert filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir)) == "normal"


def test_under_strategy_pass_attempts_after_the_first_success_do_not_count(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, k=3, strategy="pass")
    execute(run_dir, attempt=3, result=a_result(attempt=3, issues=[an_issue("fatal")]))
    execute(run_dir, attempt=1, result=a_result(issues=[an_issue("error")], metrics={}))

    execute(run_dir, attempt=2)

    assert state_of(run_dir) == "error"
    assert check_run(run_dir) == []


def test_a_torn_sibling_does_not_stop_a_publication_and_is_named_to_who_files(
    tmp_path: Path,
) -> None:
    run_dir = a_run(tmp_path, k=2)
    execute(run_dir, attempt=1)
    path = attempts.result_of(run_dir, "task-1", 1)
    assert path is not None
    path.write_text("{")

    assert execute(run_dir, attempt=2)

    assert state_of(run_dir) == "running"
    with pytest.raises(RecordCorrupt, match="attempt-1"):
        filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir))


def with_artifacts(run_dir: Path, view: AttemptView) -> AttemptResult:
    directory, recorded = attempts.artifacts_directory(view)
    source = run_dir.parent / "log.txt"
    source.write_text("x")
    entry = artifacts.collect_tree(source, directory / "log").entry("log.txt", "log")
    manifest = ArtifactManifest(directory=recorded, entries=(entry,))
    attempts.write_snapshot(view, a_checkpoint(view, manifest=manifest))
    named = {"collected": [{"directory": recorded}], "said": SAID}
    return a_result().model_copy(update={"artifacts": named, "final_answer": SAID})


class TestArtifacts:
    def test_their_directories_follow_the_task_and_texts_do_not(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        view = begin(run_dir)
        publish(run_dir, view, with_artifacts(run_dir, view))

        path = attempts.result_of(run_dir, "task-1", 1)
        assert path is not None
        result = attempts.load_result(path)
        moved = path.parent.relative_to(run_dir) / "artifacts" / TOKEN
        assert result.artifacts == {"collected": [{"directory": str(moved)}], "said": SAID}
        assert result.final_answer == SAID
        checkpoint = attempts.load_checkpoint(path.parent)
        assert checkpoint is not None
        assert checkpoint.evaluation is not None
        assert checkpoint.evaluation.artifacts.directory == str(moved)
        assert check_run(run_dir, deep=True) == []

    def test_a_move_cut_short_still_reads_right_and_is_finished_by_the_next(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path)
        view = begin(run_dir)
        result = with_artifacts(run_dir, view)
        monkeypatch.setattr(atomic, "move", lambda *_paths: False)
        publish(run_dir, view, result)
        monkeypatch.undo()
        assert state_of(run_dir) == "running"
        assert check_run(run_dir, deep=True) == []

        assert filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir)) == "normal"
        assert check_run(run_dir, deep=True) == []

    def test_a_torn_checkpoint_does_not_keep_a_task_from_its_place(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        view = begin(run_dir)
        result = with_artifacts(run_dir, view)
        (view.directory / layout.CHECKPOINT).write_text("{")

        publish(run_dir, view, result)

        assert state_of(run_dir) == "normal"

    @pytest.mark.parametrize("content", [None, '{"scheduler": {}, "evaluation": null}'])
    def test_there_may_be_no_snapshot(self, content: str | None, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        view = begin(run_dir)
        result = with_artifacts(run_dir, view)
        (view.directory / layout.CHECKPOINT).unlink()
        if content is not None:
            (view.directory / layout.CHECKPOINT).write_text(content)

        publish(run_dir, view, result)

        assert state_of(run_dir) == "normal"


class TestReopen:
    def test_the_old_result_is_kept_and_the_task_runs_again(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, k=2)
        for attempt in (1, 2):
            execute(run_dir, attempt=attempt, result=a_result(attempt=attempt, metrics={}))
        decide(run_dir, "rerun", ("task-1", 2))
        assert check_run(run_dir) == [], "a rerun that is only recorded so far is sound"

        assert filing.reopen(run_dir, "task-1", {2: 2})
        assert filing.reopen(run_dir, "task-1", {2: 2})

        assert state_of(run_dir) == "running"
        assert attempts.is_published(run_dir, "task-1", 1)
        assert not attempts.is_published(run_dir, "task-1", 2)
        execute(run_dir, attempt=2, result=a_result(attempt=2, leg=2))
        assert state_of(run_dir) == "normal"
        assert check_run(run_dir) == []

    def test_a_stale_result_does_not_file_the_task(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        decide(run_dir, "rerun", ("task-1", 1))
        filing._bring_back(run_dir, "normal", task_dirname("task-1"))

        assert filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir)) is None
        assert reduce(run_dir).headline.counts.unavailable == 1

    def test_a_leftover_in_running_is_absorbed(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        leftover = layout.task_dir(run_dir, "running", "task-1")
        (leftover / "attempt-1").mkdir(parents=True)
        (leftover / "task.json").write_text("{}")
        assert state_of(run_dir) == "normal"
        assert check_run(run_dir) == []

        filing.reopen(run_dir, "task-1", {1: 2})

        assert state_of(run_dir) == "running"
        kept = layout.task_dir(run_dir, "running", "task-1") / "attempt-1" / "retries"
        assert [name.split("-")[0] for name in names(kept)] == ["leftover", "leg"]

    def test_a_task_that_is_over_in_its_new_leg_stays_filed(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        decide(run_dir, "rerun", ("task-1", 1))
        filing.reopen(run_dir, "task-1", {1: 2})
        execute(run_dir, result=a_result(leg=2, token=OTHER))

        assert filing.reopen(run_dir, "task-1", {1: 2}), "by somebody who looked before that"

        assert state_of(run_dir) == "normal"
        assert check_run(run_dir) == []

    def test_of_two_results_of_a_leg_one_counts_and_the_other_is_kept(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path, k=2)
        execute(run_dir, result=a_result(leg=2, token=OTHER))
        place = layout.task_dir(run_dir, "running", "task-1") / "attempt-1"
        taken = place / "retries" / "retiring-1" / "result.json"
        taken.parent.mkdir(parents=True)
        taken.write_bytes(results.to_bytes(a_result(leg=2, token=TOKEN)))

        filing.reopen(run_dir, "task-1", {1: 2})

        assert attempts.load_outcome(place / "result.json").token == OTHER
        assert names(place / "retries" / "leg-2") == [f"result-{TOKEN}.json"]
        assert names(place / "retries") == ["leg-2"]

    def test_a_late_result_of_the_old_leg_gives_way_to_one_that_gets_its_name_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_dir = a_run(tmp_path, k=2)
        view = begin(run_dir, token=TOKEN)
        taken = view.directory / "retries" / "retiring-1" / "result.json"
        taken.parent.mkdir(parents=True)
        taken.write_bytes(results.to_bytes(a_result(leg=2, token=OTHER)))
        real = atomic.add_name

        def overtaken(path: Path, new: Path) -> bool:
            monkeypatch.undo()
            publish(run_dir, view)
            return real(path, new)

        monkeypatch.setattr(atomic, "add_name", overtaken)

        filing.reopen(run_dir, "task-1", {1: 2})

        assert attempts.load_outcome(view.directory / "result.json").token == OTHER
        assert "leg-1" in names(view.directory / "retries")

    def test_a_task_that_is_nowhere_has_nothing_to_reopen(self, tmp_path: Path) -> None:
        assert not filing.reopen(a_run(tmp_path), "task-1", {1: 2})

    def test_an_attempt_without_a_result_is_open_already(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        begin(run_dir)

        assert filing.reopen(run_dir, "task-1", {1: 2})


def test_a_malformed_record_is_put_aside_and_its_attempt_runs_again(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    path = attempts.result_of(run_dir, "task-1", 1)
    assert path is not None
    path.write_text("{")
    assert [each.invariant for each in check_run(run_dir)] == ["INV-1"]
    decide(run_dir, "quarantine", ("task-1", 1))

    kept = filing.quarantine(path)

    assert kept.read_text() == "{"
    view = begin(run_dir, token=OTHER, leg=2, valid_from_leg=2)
    assert publish(run_dir, view, a_result(token=OTHER, leg=2))
    assert check_run(run_dir) == []


def test_a_task_that_another_filed_meanwhile_is_filed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path)
    monkeypatch.setattr(filing, "file_if_terminal", lambda *_args, **_words: None)
    execute(run_dir)
    monkeypatch.undo()
    real = filing._rewrite

    def overtaken(*arguments: object) -> None:
        monkeypatch.undo()
        filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir))
        real(*arguments)  # type: ignore[arg-type]
        raise FileNotFoundError

    monkeypatch.setattr(filing, "_rewrite", overtaken)

    assert filing.file_if_terminal(run_dir, "task-1", plan_of(run_dir)) == "normal"


def test_a_task_that_never_rests_is_left_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path)
    begin(run_dir)
    monkeypatch.setattr(disk, "find", lambda _run, _name: ("normal", str(tmp_path / "x")))
    assert not filing.reopen(run_dir, "task-1", {1: 2})

    def moved(*_arguments: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(disk, "find", lambda _run, _name: ("running", str(tmp_path / "x")))
    monkeypatch.setattr(filing, "retire", moved)
    assert not filing.reopen(run_dir, "task-1", {1: 2})
