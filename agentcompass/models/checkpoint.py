"""`checkpoint.json`: the post-agent snapshot and who made it (contracts, §6)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from agentcompass.models.base import JsonObject, Record, Sha256, Timestamp
from agentcompass.models.issue import Issue
from agentcompass.models.plan import EvaluationMode
from agentcompass.models.task import PreparedTask
from agentcompass.models.trajectory import Trajectory


class ArtifactEntry(Record):
    """One collected file or folder."""

    source: str
    destination: str
    """Relative to the manifest's directory."""
    kind: Literal["file", "directory"]
    status: Literal["collected", "missing", "failed"]
    size_bytes: int = Field(default=0, ge=0)
    file_count: int = Field(default=0, ge=0)
    sha256: Sha256 | None = None


class ArtifactManifest(Record):
    """What one execution collected; `directory` is relative to the run directory, "" if none."""

    directory: str = ""
    complete: bool = True
    entries: tuple[ArtifactEntry, ...] = ()


class SchedulerState(Record):
    """Which execution wrote this checkpoint."""

    state: Literal["executing", "agent_finished"]
    execution: int = Field(ge=1)
    worker: str
    token: str
    leg: int
    started_at: Timestamp
    updated_at: Timestamp


class SnapshotResult(Record):
    """The run result without a verdict, already strict JSON."""

    task_id: str
    status: str = "completed"
    final_answer: JsonValue = None
    ground_truth: JsonValue = None
    trajectory: Trajectory | None = None
    issues: tuple[Issue, ...] = ()
    artifacts: JsonObject = Field(default_factory=dict)
    telemetry: JsonObject = Field(default_factory=dict)
    extra: JsonObject = Field(default_factory=dict)


class Snapshot(Record):
    """All that an evaluation needs. `run_completed` is false if the agent did not run cleanly."""

    task_id: str
    attempt: int
    mode: EvaluationMode
    run_completed: bool
    retry_count: int = 0
    agent_from: str = ""
    """The run in which the agent ran; "" if it is the one that the snapshot stands in."""
    run_result: SnapshotResult
    prepared_task: PreparedTask
    artifacts: ArtifactManifest = ArtifactManifest()


class Checkpoint(Record):
    """The whole file; always replaced whole, by one execution, marked with its token."""

    schema_version: Literal["agentcompass.attempt_checkpoint.v2"] = (
        "agentcompass.attempt_checkpoint.v2"
    )
    scheduler: SchedulerState
    evaluation: Snapshot | None = None
