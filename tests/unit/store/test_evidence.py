"""What this run executed and does not count."""

from __future__ import annotations

from pathlib import Path

from agentcompass.models.result import AttemptMeta, AttemptResult
from agentcompass.store import attempts, evidence, filing, results
from tests.builders import a_result
from tests.support.store_runs import a_checkpoint, a_run, begin, decide, publish


def paid(tokens: int, token: str, *, reused_from: str = "") -> AttemptResult:
    meta = AttemptMeta(harness={"telemetry": {"usage": {"input_tokens": tokens}}})
    return a_result(token=token).model_copy(update={"meta": meta, "reused_from": reused_from})


def discarded(attempt_dir: Path) -> list[int]:
    heads = evidence.discarded(attempt_dir)
    return sorted(head.spend.input_tokens or 0 for head in heads if head.spend is not None)


def test_tries_losers_and_results_of_older_legs_were_paid_for(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    view, rival = begin(run_dir, token="a" * 8), begin(run_dir, token="b" * 8)
    evidence.keep_retry(view, 1, paid(1, view.token))
    publish(run_dir, view, paid(2, view.token))
    publish(run_dir, rival, paid(4, rival.token))
    decide(run_dir, "rerun", ("task-1", 1))
    filing.reopen(run_dir, "task-1", {1: 2})

    attempt_dir = run_dir / "details" / "running" / view.directory.parent.name / "attempt-1"

    assert discarded(attempt_dir) == [1, 2, 4]


def test_what_cannot_be_read_and_what_another_run_paid_for_is_passed_over(tmp_path: Path) -> None:
    view = begin(a_run(tmp_path))
    evidence.keep(view.directory, "quarantine-x", {"result.json": b"{"})
    reused = results.to_bytes(paid(8, "t", reused_from="other"))
    evidence.keep(view.directory, "reused-1", {"result.json": reused, "notes.json": b"{}"})

    assert discarded(view.directory) == []


def test_most_attempts_have_none(tmp_path: Path) -> None:
    assert discarded(begin(a_run(tmp_path)).directory) == []


def test_what_the_winner_has_continued_from_stays_in_its_place(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    first = begin(run_dir, token="a" * 8)
    directory, recorded = attempts.artifacts_directory(first)
    (directory / "out").write_text("kept")
    second = begin(run_dir, token="b" * 8)
    manifest = {"directory": recorded, "complete": True, "entries": []}
    won = a_result(token=second.token).model_copy(update={"artifacts": {"manifest": manifest}})

    assert publish(run_dir, second, won)
    assert not publish(run_dir, first, paid(1, first.token))

    (kept,) = run_dir.glob("details/normal/*/attempt-1/artifacts/*/out")
    assert kept.read_text() == "kept"
    assert list(run_dir.glob("details/normal/*/attempt-1/retries/execution-*/result.json"))


def test_the_snapshot_of_a_finished_agent_stays_for_whoever_took_over(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    view = begin(run_dir, token="a" * 8)
    attempts.artifacts_directory(view)

    attempts.write_snapshot(view, a_checkpoint(view))
    evidence.keep_unfinished(view, view.token)
    assert {path.name for path in view.directory.iterdir()} >= {"checkpoint.json", "artifacts"}
    evidence.keep_unfinished(view, "b" * 8)
    assert [path.name for path in (view.directory / "retries").iterdir()] == [
        "execution-" + "b" * 8
    ]
