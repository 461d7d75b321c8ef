"""Checkpoints of the other writer read in the shape of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.base import JsonObject
from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.task import PreparedTask, TaskSpec
from agentcompass.store.attempts import load_checkpoint
from agentcompass.store.foreign_checkpoints import without_masks
from tests.support import golden_runs as theirs

MASK = "********"


def v1(**fields: object) -> dict[str, Any]:
    snapshot: dict[str, Any] = {
        "schema_version": "agentcompass.evaluation_checkpoint.v4",
        "task_id": "a",
        "attempt": 1,
        "source_run_id": "theirs",
        "source_evaluation_mode": "none",
        "run_completed": True,
        "artifacts": {
            "schema_version": 1,
            "complete": True,
            "entries": [],
            "directory": "details/x",
        },
        "run_result": {
            "task_id": "a",
            "status": "completed",
            "final_answer": "42",
            "trajectory": {"steps": [], "started_at": "2026-01-02 03:04:05"},
            "issues": [],
            "telemetry": {"n": 1},
            "meta": None,
        },
        "prepared_task": {"task_id": "a", "input": {"prompt": "?", "system_prompt": None}},
        "network_policy": {},
        "driver_inputs": {},
    }
    snapshot |= fields
    return {"schema_version": "agentcompass.attempt_checkpoint.v1", "evaluation": snapshot}


def loaded(tmp_path: Path, record: dict[str, Any]) -> Checkpoint:
    theirs.write(tmp_path / "checkpoint.json", record)
    found = load_checkpoint(tmp_path)
    assert found is not None
    return found


def test_a_snapshot_gives_the_agents_result_and_the_prepared_task(tmp_path: Path) -> None:
    snapshot = loaded(tmp_path, v1()).evaluation

    assert snapshot is not None
    assert (snapshot.task_id, snapshot.attempt, snapshot.mode) == ("a", 1, "none")
    assert snapshot.run_completed
    assert snapshot.run_result.final_answer == "42"
    assert snapshot.run_result.telemetry == {"n": 1}
    assert snapshot.prepared_task.input.prompt == "?"
    assert snapshot.artifacts.complete


def test_one_without_a_snapshot_is_an_execution_that_began(tmp_path: Path) -> None:
    record = {"schema_version": "agentcompass.attempt_checkpoint.v1"}

    found = loaded(tmp_path, record)

    assert (found.evaluation, found.scheduler.state) == (None, "executing")


@pytest.mark.parametrize(
    ("severity", "cleanly"), [("warning", "yes"), ("error", "no"), ("fatal", "no")]
)
def test_an_agent_with_an_error_did_not_run_cleanly_whatever_its_writer_says(
    tmp_path: Path, severity: str, cleanly: str
) -> None:
    record = v1()
    record["evaluation"]["run_result"]["issues"] = [{**theirs.ISSUE, "severity": severity}]

    snapshot = loaded(tmp_path, record).evaluation

    assert snapshot is not None
    assert snapshot.run_completed is (cleanly == "yes")


def test_artifacts_with_checksums_of_another_rule_make_it_useless(tmp_path: Path) -> None:
    entry = {"source": "/x", "destination": "x", "status": "excluded", "sha256": "f" * 64}
    record = v1(artifacts={"complete": True, "entries": [entry], "directory": "details/x"})

    snapshot = loaded(tmp_path, record).evaluation

    assert snapshot is not None
    assert not snapshot.artifacts.complete


def test_what_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordCorrupt, match=r"checkpoint\.json"):
        loaded(tmp_path, v1(task_id=None))
    with pytest.raises(FormatUnknown, match="v9"):
        loaded(tmp_path, {"schema_version": "agentcompass.attempt_checkpoint.v9"})


class TestMasks:
    def test_a_task_without_one_stays_as_it_is(self) -> None:
        prepared = PreparedTask(task_id="a", metadata={"x": 1})

        assert without_masks(prepared, TaskSpec(task_id="a")) is prepared

    def test_what_the_task_says_today_is_put_back_and_what_it_does_not_say_left_out(self) -> None:
        kept: JsonObject = {"token": MASK, "deep": {"key": MASK, "n": 1}, "gone": MASK, "list": [1]}
        today: JsonObject = {"token": "real", "deep": {"key": "other"}}

        found = without_masks(
            PreparedTask(task_id="a", metadata=kept), TaskSpec(task_id="a", metadata=today)
        )

        assert found is not None
        assert found.metadata == {"token": "real", "deep": {"key": "other", "n": 1}, "list": [1]}

    def test_a_mask_in_what_the_agent_or_the_judge_is_given_cannot_be_put_back(self) -> None:
        prepared = PreparedTask(task_id="a", ground_truth=f"Bearer {MASK}")

        assert without_masks(prepared, TaskSpec(task_id="a")) is None
