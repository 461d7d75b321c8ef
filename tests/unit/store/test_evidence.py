"""What this run executed and does not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.models.result import AttemptMeta, AttemptResult
from agentcompass.store import atomic, attempts, evidence, filing, results
from agentcompass.store.attempts import AttemptView
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


def a_finished_execution(run_dir: Path) -> tuple[AttemptView, AttemptResult]:
    """Return one that has collected a file and is about to publish."""
    view = begin(run_dir, token="a" * 8)
    directory, recorded = attempts.artifacts_directory(view)
    (directory / "out").write_text("kept")
    manifest = {"directory": recorded, "complete": True, "entries": []}
    result = a_result(token=view.token).model_copy(update={"artifacts": {"manifest": manifest}})
    return view, result


@pytest.mark.parametrize("filed", [True, False])
def test_what_is_published_while_its_artifacts_are_put_aside_gets_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, filed: bool
) -> None:
    """Somebody thought it dead, looked, and moved a moment after it had looked for them."""
    run_dir = a_run(tmp_path, k=1 if filed else 2)
    view, result = a_finished_execution(run_dir)
    successor = begin(run_dir, token="b" * 8)
    move = atomic.move

    def publish_first(source: Path, target: Path) -> bool:
        if Path(source).name == view.token:
            monkeypatch.setattr(atomic, "move", move)
            moved = move(source, target)
            assert moved
            # The link and the look of the publisher came before our move: only we can see it.
            monkeypatch.setattr(evidence, "bring_back", lambda *_: None)
            assert publish(run_dir, view, result)
            return moved
        return move(source, target)

    monkeypatch.setattr(atomic, "move", publish_first)
    evidence.keep_execution(successor, view.token)

    (kept,) = run_dir.glob("details/*/*/attempt-1/artifacts/*/out")
    assert kept.read_text() == "kept"
    assert kept.parts[-6] == ("normal" if filed else "running")


def test_who_publishes_after_its_artifacts_were_put_aside_takes_them_back(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    view, result = a_finished_execution(run_dir)
    evidence.keep_execution(begin(run_dir, token="b" * 8), view.token)

    assert publish(run_dir, view, result)

    assert list(run_dir.glob("details/normal/*/attempt-1/artifacts/*/out"))
    assert not list(run_dir.glob("details/*/*/attempt-1/retries/*/artifacts"))
