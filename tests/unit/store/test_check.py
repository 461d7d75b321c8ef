"""Every invariant has a way to break it, and `check_run` says which one and where."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from pydantic import BaseModel

from agentcompass.errors import FormatUnknown, RunNotFound
from agentcompass.models.checkpoint import ArtifactManifest
from agentcompass.store import artifacts, attempts, layout, records, results, run_info
from agentcompass.store.check import Violation, check_run
from agentcompass.store.names import task_dirname
from tests.builders import a_result, an_issue
from tests.support.store_runs import (
    a_checkpoint,
    a_reserved_run,
    a_run,
    begin,
    decide,
    execute,
    publish,
    write_report,
)

A, B = task_dirname("a"), task_dirname("b")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A finished run of tasks a and b with one decision, in which everything is in order."""
    run_dir = a_run(tmp_path, "a", "b")
    decide(run_dir, "resume")
    execute(run_dir, "a")
    view = begin(run_dir, "b")
    attempts.write_snapshot(view, a_checkpoint(view))
    publish(run_dir, view)
    write_report(run_dir)
    assert check_run(run_dir, deep=True) == []
    return run_dir


def edit(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


def at(run_dir: Path, *parts: str) -> Path:
    return run_dir.joinpath("details", "normal", *parts)


def move(source: Path, target: Path) -> None:
    source.rename(target)


BREAKS: list[tuple[str, Callable[[Path], object]]] = [
    ("INV-1", lambda run: (run / "params.json").write_text("{")),
    ("INV-1", lambda run: (run / "control" / "0001.json").write_text("{}")),
    ("INV-1", lambda run: edit(run / "control" / "0001.json", b"control.v1", b"control.v2")),
    ("INV-1", lambda run: at(run, A, "task.json").write_text("")),
    ("INV-1", lambda run: at(run, A, "attempt-1", "result.json").write_text("")),
    ("INV-1", lambda run: edit(at(run, A, "attempt-1", "result.json"), b"result.v1", b"result.v2")),
    ("INV-1", lambda run: edit(at(run, A, "attempt-1", "result.json"), b'"leg":1', b'"leg":1,"leg":1')),
    ("INV-1", lambda run: at(run, B, "attempt-1", "checkpoint.json").write_text("{")),
    ("INV-1", lambda run: (run / "tasks.jsonl").write_text("{")),
    ("INV-2", lambda run: (run / "tasks.jsonl").unlink()),
    ("INV-2", lambda run: edit(run / "tasks.jsonl", b"2 + 2?", b"2 + 3?")),
    ("INV-2", lambda run: edit(run / "tasks.jsonl", b'"b"', b'"a"')),
    ("INV-3", lambda run: at(run, task_dirname("c")).mkdir()),
    ("INV-3", lambda run: at(run, A, "task.json").unlink()),
    ("INV-3", lambda run: edit(at(run, A, "task.json"), b'"4"', b'"5"')),
    ("INV-4", lambda run: edit(at(run, A, "attempt-1", "result.json"), b'_id":"a"', b'_id":"b"')),
    ("INV-4", lambda run: edit(at(run, A, "attempt-1", "result.json"), b'"attempt":1', b'"attempt":2')),
    ("INV-4", lambda run: edit(at(run, A, "attempt-1", "result.json"), b'"leg":1', b'"leg":3')),
    ("INV-4", lambda run: edit(at(run, A, "attempt-1", "result.json"), b'"completed"', b'"cancelled"')),
    ("INV-4", lambda run: edit(at(run, A, "attempt-1", "result.json"), b'"tttttttttttttttt-1"', b'""')),
    ("INV-4", lambda run: edit(at(run, B, "attempt-1", "checkpoint.json"), b'"attempt":1', b'"attempt":2')),
    ("INV-5", lambda run: at(run, A, "attempt-1", "result.json").unlink()),
    ("INV-5", lambda run: shutil.rmtree(at(run, A, "attempt-1"))),
    ("INV-5", lambda run: move(at(run, A), run / "details" / "error" / A)),
    ("INV-6", lambda run: shutil.copytree(at(run, A), run / "details" / "error" / A)),
    ("INV-7", lambda run: move(run / "control" / "0001.json", run / "control" / "0002.json")),
    ("INV-7", lambda run: edit(run / "control" / "0001.json", b'"leg": 2', b'"leg": 5')),
    ("INV-7", lambda run: shutil.rmtree(run / "control")),
    ("INV-8", lambda run: (run / "metrics.json").unlink()),
    ("INV-8", lambda run: (run / "metrics.json").write_text("{}")),
    ("INV-8", lambda run: (run / ".covered.json").write_text("{}")),
    ("INV-10", lambda run: (run / "details" / "notes.txt").write_text("")),
    ("INV-10", lambda run: at(run, "not-a-task").mkdir()),
    ("INV-10", lambda run: at(run, A + "x").symlink_to(at(run, A))),
    ("INV-10", lambda run: at(run, A, "notes.txt").write_text("")),
    ("INV-10", lambda run: at(run, A, "attempt-2").mkdir()),
    ("INV-10", lambda run: at(run, A, "attempt-1", "notes.txt").write_text("")),
    ("INV-10", lambda run: at(run, A, "attempt-1", "artifacts").symlink_to("/")),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "break_it"), BREAKS)
def test_what_is_broken_is_named(
    invariant: str, break_it: Callable[[Path], object], run_dir: Path
) -> None:
    break_it(run_dir)

    found = check_run(run_dir)

    assert invariant in {each.invariant for each in found}, found
    assert all(each.problem for each in found)


def test_metrics_that_are_not_what_the_results_reduce_to_are_named(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    write_report(run_dir)
    path = attempts.result_of(run_dir, "task-1", 1)
    assert path is not None
    edit(path, b'"correct":true', b'"correct":false')

    assert {each.invariant for each in check_run(run_dir)} == {"INV-9"}


def test_metrics_of_another_plan_are_named(run_dir: Path) -> None:
    path = run_dir / layout.RUN_INFO
    fields = orjson.loads(path.read_bytes())
    fields["request"]["execution"]["attempts"]["strategy"] = "pass"
    path.write_bytes(orjson.dumps(fields))

    assert "INV-8" in {each.invariant for each in check_run(run_dir)}


def test_an_artifact_that_changed_is_found_by_a_deep_check_only(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    view = begin(run_dir)
    directory, recorded = attempts.artifacts_directory(view)
    (tmp_path / "log").write_text("x")
    entry = artifacts.collect_tree(tmp_path / "log", directory / "log").entry("log", "log")
    manifest = ArtifactManifest(directory=recorded, entries=(entry,))
    attempts.write_snapshot(view, a_checkpoint(view, manifest=manifest))
    publish(run_dir, view)
    (at(run_dir, task_dirname("task-1"), "attempt-1", "artifacts", view.token) / "log").unlink()

    assert check_run(run_dir) == []
    assert {each.invariant for each in check_run(run_dir, deep=True)} == {"INV-11"}


def test_temporary_files_and_leftovers_are_harmless(run_dir: Path) -> None:
    for directory in (run_dir, at(run_dir), at(run_dir, A), at(run_dir, A, "attempt-1")):
        (directory / ".tmp-1").write_text("half a re")
    (run_dir / "details" / "running" / A / "attempt-1").mkdir(parents=True)

    assert check_run(run_dir) == []


def test_an_unsealed_run_has_nothing_to_check_yet(tmp_path: Path) -> None:
    assert check_run(a_reserved_run(tmp_path)) == []


def test_a_run_info_that_cannot_be_read_is_named(run_dir: Path) -> None:
    (run_dir / layout.RUN_INFO).write_text("{")

    (found,) = check_run(run_dir)

    assert (found.invariant, found.path) == ("INV-1", run_dir / layout.RUN_INFO)


def test_params_may_be_missing(run_dir: Path) -> None:
    (run_dir / layout.PARAMS).unlink()

    assert check_run(run_dir) == []


def test_a_task_that_is_moved_meanwhile_is_passed_over(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = records.read

    def moved(path: Path, model: type[BaseModel]) -> BaseModel:
        if path.name == layout.TASK:
            raise FileNotFoundError(path)
        return real(path, model)

    monkeypatch.setattr(records, "read", moved)

    assert check_run(run_dir) == []


def test_there_has_to_be_a_run_of_ours(tmp_path: Path, run_dir: Path) -> None:
    with pytest.raises(RunNotFound):
        check_run(tmp_path / "gone")
    edit(run_dir / layout.RUN_INFO, b"run_info.v3", b"run_info.v9")
    with pytest.raises(FormatUnknown):
        check_run(run_dir)


def test_a_formula_of_the_benchmarks_own_is_not_second_guessed(run_dir: Path) -> None:
    info = run_info.load(run_dir).model_copy(update={"custom_aggregation": True})
    run_info.write_reserved(run_dir, info)
    bad = a_result("a", token="t" * 16 + "-1", metrics={"correct": False})
    at(run_dir, A, "attempt-1", "result.json").write_bytes(results.to_bytes(bad))

    assert check_run(run_dir) == []


def test_a_state_that_is_not_the_worst_issues_is_named_with_the_right_one(run_dir: Path) -> None:
    bad = a_result("a", issues=[an_issue("fatal")])
    at(run_dir, A, "attempt-1", "result.json").write_bytes(results.to_bytes(bad))

    assert check_run(run_dir) == [Violation("INV-5", at(run_dir, A), "belongs to fatal")]


def test_a_checkpoint_without_a_snapshot_is_in_order(run_dir: Path) -> None:
    path = at(run_dir, B, "attempt-1", "checkpoint.json")
    fields = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**fields, "evaluation": None}))

    assert check_run(run_dir) == []


def test_a_report_without_a_contract_is_not_reduced_again(run_dir: Path) -> None:
    info = run_info.load(run_dir).model_copy(update={"metric_contract": None})
    run_info.write_reserved(run_dir, info)

    assert check_run(run_dir) == []


def test_metrics_may_cover_what_was_there_before(run_dir: Path) -> None:
    decide(run_dir, "rerun", ("a", 1))

    assert check_run(run_dir) == []
