"""`run_info.json`, `control/NNNN.json` and `task.json` (contracts, §2 to §4)."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, JsonValue

from agentcompass.models.base import Frozen, JsonObject, Record, Sha256, Timestamp
from agentcompass.models.metric import MetricContract
from agentcompass.models.plan import ResolvedPlans
from agentcompass.models.request import (
    AttemptPlan,
    ExecutionSettings,
    Request,
    RuntimeSettings,
)

RUN_INFO_SCHEMA: Final = "agentcompass.run_info.v3"
TASK_SCHEMA: Final = "agentcompass.task.v3"
RunStatus = Literal["running", "completed", "failed", "cancelled", "interrupted"]
ControlAction = Literal["resume", "rerun", "cancel", "pause", "interrupt", "quarantine", "reuse"]


class ReuseSource(Frozen):
    """Where the reused attempts came from, and what differs from that source's request."""

    run_id: str
    path: str
    differences: tuple[JsonObject, ...] = ()
    tasks: int = Field(default=0, ge=0)
    attempts: int = Field(default=0, ge=0)


class ReportIdentity(Frozen):
    """Which formula made `metrics.json`."""

    k: int
    strategy: str
    aggregation: str


class MetricArtifacts(Frozen):
    """Provenance of `metrics.json`: a digest of the results that it covers."""

    generated_at: Timestamp
    """The latest `finished_at` of the results covered, so that all writers agree."""
    source: Literal["evaluation", "report"] = "evaluation"
    results_sha256: Sha256
    report: ReportIdentity


class RunInfo(Record):
    """The sealed part plus what follows from `control/` and the metrics."""

    schema_version: Literal["agentcompass.run_info.v3"] = RUN_INFO_SCHEMA
    run_id: str
    status: RunStatus = "running"
    started_at: Timestamp
    finished_at: Timestamp | None = None
    sealed_at: Timestamp | None = None
    error: str = ""
    request: Request
    task_count: int | None = Field(default=None, ge=0)
    """Null until sealed."""
    attempt_count: int | None = Field(default=None, ge=0)
    metric_contract: MetricContract | None = None
    aggregation: str = "micro_weighted"
    category_hierarchy: JsonValue = None
    custom_aggregation: bool = False
    """True if the benchmark overrides `aggregate_metrics`: the report then needs its plug-in."""
    tasks_sha256: Sha256 | None = None
    """Digest of `tasks.jsonl`, the frozen denominator."""
    resolved_execution_plans: ResolvedPlans | None = None
    reused_from: ReuseSource | None = None
    metric_artifacts: MetricArtifacts | None = None


class AttemptRef(Frozen):
    """One attempt by its names."""

    task_id: str
    attempt: int = Field(ge=1)


class PolicyChange(Frozen):
    """What a leg changed: policy only, never the benchmark, the plan, the tasks or the model."""

    execution: ExecutionSettings | None = None
    runtime: RuntimeSettings | None = None


class ControlRecord(Record):
    """One decision after the seal, published once as `control/NNNN.json`."""

    schema_version: Literal["agentcompass.control.v1"] = "agentcompass.control.v1"
    leg: int = Field(ge=1)
    """The leg that this record opens (resume, rerun) or the last one that it closes."""
    action: ControlAction
    attempts: tuple[AttemptRef, ...] = ()
    """Empty means the whole run."""
    reason: str = ""
    by: str = ""
    at: Timestamp
    policy: PolicyChange | None = None


class TaskRecord(Record):
    """`task.json`: a pure function of the frozen task, published once."""

    schema_version: Literal["agentcompass.task.v3"] = TASK_SCHEMA
    task_id: str
    category: str | None = None
    ground_truth: JsonValue = None
    attempt_plan: AttemptPlan
    attempts: dict[str, str]
    """Attempt number -> directory; the value of attempt n is always `attempt-n`."""
