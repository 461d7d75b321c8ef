"""An agent that has finished does not run again; one that cannot be trusted does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.plan import EvaluationMode
from agentcompass.models.task import ArtifactRequest, TaskSpec
from agentcompass.runtime import execute
from agentcompass.runtime.delivery import held
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.runtime.phases.agent import AgentEnd
from agentcompass.runtime.phases.evaluate import evaluate
from agentcompass.runtime.ports import Done, HandBack, Park
from agentcompass.store import attempts
from agentcompass.store.check import check_run
from tests.support import store_runs
from tests.support.delivering import Lab, a_lab

FILE = TaskSpec(task_id="t0", ground_truth="t0", artifacts=(ArtifactRequest(path="out.txt"),))


def die_before_the_verdict(lab: Lab) -> None:
    """Leave the attempt as a worker does that goes down between agent and verdict."""
    lab.keeper.stop_at, lab.keeper.stop_reason = "evaluation_timeout", "handed_back"
    assert isinstance(lab.deliver(), HandBack)
    lab.keeper.stop_at = None


@pytest.mark.parametrize("mode", ["none", "fresh"])
def test_only_the_evaluation_runs_again_after_the_agent_has_finished(
    tmp_path: Path, mode: EvaluationMode
) -> None:
    lab = a_lab(tmp_path, agent={"t0": "nonce"}, mode=mode, task_specs=[FILE])
    die_before_the_verdict(lab)
    answer = snapshot(lab)["run_result"]["final_answer"]

    assert lab.deliver() == Done("published")

    assert (lab.ran("agent"), lab.ran("evaluator")) == (1, 1)
    assert lab.result().final_answer == answer
    assert check_run(lab.run_dir) == []


def snapshot(lab: Lab) -> dict[str, dict[str, object]]:
    text = (lab.attempt_dir() / "checkpoint.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, object]] = json.loads(text)["evaluation"]
    return found


def test_mode_reuse_leaves_no_snapshot(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, mode="reuse")

    lab.deliver()

    assert not (lab.attempt_dir() / "checkpoint.json").exists()
    assert check_run(lab.run_dir) == []


def tamper_artifact(lab: Lab) -> None:
    path = next(lab.attempt_dir().glob("artifacts/*/*"))
    path.write_bytes(b"X" + path.read_bytes()[1:])


def tamper_identity(lab: Lab) -> None:
    rewrite(lab, '"attempt":1', '"attempt":2')


def tamper_mode(lab: Lab) -> None:
    rewrite(lab, '"mode":"none"', '"mode":"fresh"')


def tamper_cleanness(lab: Lab) -> None:
    rewrite(lab, '"run_completed":true', '"run_completed":false')


def tear(lab: Lab) -> None:
    path = lab.attempt_dir() / "checkpoint.json"
    path.write_bytes(path.read_bytes()[:-20])


def rewrite(lab: Lab, old: str, new: str) -> None:
    path = lab.attempt_dir() / "checkpoint.json"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    "spoil", [tamper_artifact, tamper_identity, tamper_mode, tamper_cleanness, tear]
)
def test_a_snapshot_that_cannot_be_trusted_makes_the_agent_run_again(
    tmp_path: Path, spoil: Callable[[Lab], None]
) -> None:
    lab = a_lab(tmp_path, task_specs=[FILE])
    die_before_the_verdict(lab)
    spoil(lab)

    assert lab.deliver() == Done("published")

    assert (lab.ran("agent"), lab.ran("evaluator")) == (2, 1)
    kept = list(lab.attempt_dir().glob("retries/execution-*/*"))
    assert any(path.name in {"checkpoint.json", "artifacts"} for path in kept)
    assert len(list(lab.attempt_dir().glob("artifacts/*"))) == 1


@pytest.mark.parametrize("look", [1, 2], ids=["deciding", "evaluating"])
def test_no_agent_runs_if_whoever_left_the_snapshot_has_published_meanwhile(
    look: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = a_lab(tmp_path, task_specs=[FILE])
    die_before_the_verdict(lab)
    real, looks = attempts.load_checkpoint, list[Path]()

    def overtaken(directory: Path) -> Checkpoint | None:
        looks.append(directory)
        if len(looks) == look:
            store_runs.execute(lab.run_dir, "t0")
        return real(directory)

    monkeypatch.setattr(attempts, "load_checkpoint", overtaken)

    assert lab.deliver() == Park(held.LEASE_LOST_S, "lease_lost")
    assert lab.deliver() == Done("was_published")
    assert (lab.ran("agent"), lab.ran("evaluator")) == (1, 0)
    assert check_run(lab.run_dir) == []


def test_the_evaluation_sees_the_same_from_a_snapshot_as_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, seen = a_lab(tmp_path, agent={"t0": "surrogate"}), list[object]()

    def spy(attempt: Attempt, end: AgentEnd, *rest: Any) -> object:
        seen.append(end.result.final_answer)
        return evaluate(attempt, end, *rest)

    monkeypatch.setattr(execute, "evaluate", spy)
    die_before_the_verdict(lab)
    lab.deliver()

    assert seen == ["a\\udc00b\0\u2028\ufeff"] * 2


def test_a_full_disk_at_the_snapshot_does_not_cost_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = a_lab(tmp_path)

    def refuse(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(attempts, "write_snapshot", refuse)

    assert lab.deliver() == Done("published")
    assert lab.codes() == ["warning collect snapshot_failed"]
    assert lab.result().metrics == {"correct": True}


def test_a_resumed_execution_has_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    die_before_the_verdict(lab)

    token = lab.executed().token

    checkpoint = attempts.load_checkpoint(lab.attempt_dir())
    assert checkpoint is not None
    assert (checkpoint.scheduler.token, checkpoint.scheduler.execution) == (token, 2)
