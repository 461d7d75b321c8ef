"""`check` looks at a run while others write it, and accuses nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcompass.models.checkpoint import ArtifactManifest
from agentcompass.runtime.finalize import Wanted, finalize
from agentcompass.store import (
    artifacts,
    attempts,
    check,
    check_tasks,
    disk,
    filing,
    layout,
)
from agentcompass.store.check import Violation, check_run
from tests.builders import a_result, an_issue
from tests.fault.others import Other, of
from tests.support.store_runs import TOKEN, a_checkpoint, a_run, begin, decide, execute, publish


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
