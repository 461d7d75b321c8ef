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
    """Where the reused attempts came from, and what differs from that source's request.

    Id and path are written before anything is planned; a planning that was interrupted goes on
    with this very source. The rest is filled in by the seal.
    """

    run_id: str
    path: str
    kind: Literal["reuse", "evaluate"] = "reuse"
    """`evaluate`: its agents' work was evaluated again, and none of its verdicts was taken unless
    that was asked for."""
    differences: tuple[JsonObject, ...] = ()
    """`{field, source, now}` each, secrets masked; of changed tasks `{field, changed}`, their ids."""
    tasks: int = Field(default=0, ge=0)
    """Taken whole."""
    attempts: int = Field(default=0, ge=0)
    """Taken, those of whole tasks included."""
    evaluations: int = Field(default=0, ge=0)
    """Attempts whose agent had finished there: only their evaluation runs here."""


class ReportIdentity(Frozen):
    """Which formula made `metrics.json`."""

    k: int
    strategy: str
    aggregation: str
    category_hierarchy: JsonValue = None
    """Of a formula that `report` was asked for; the frozen one stands in the run itself."""


class MetricArtifacts(Frozen):
    """Provenance of `metrics.json`: a digest of the results that it covers."""

    generated_at: Timestamp
    """The latest `finished_at` of the results covered, so that all writers agree."""
    source: Literal["evaluation", "report"] = "evaluation"
    """`report`: by another formula than the frozen one, because somebody asked for it."""
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
    benchmark_sha256: Sha256 | None = None
    """Of the file that defines the benchmark's class, as whoever planned had it."""
    custom_aggregation: bool = False
    """True if the benchmark overrides `aggregate_metrics`: the report then needs its plug-in."""
    tasks_sha256: Sha256 | None = None
    """Digest of `tasks.jsonl`, the frozen denominator."""
    resolved_execution_plans: ResolvedPlans | None = None
    broker: str = ""
    """Who hands out the first leg: `embedded`, or a URL without credentials; "" if nobody said."""
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
    evaluations: tuple[AttemptRef, ...] = ()
    """Those of a rerun's `attempts` whose snapshot stays theirs: only their evaluation runs again."""
    reason: str = ""
    by: str = ""
    at: Timestamp
    broker: str = ""
    """Of a leg that this record opens: as in `RunInfo`."""
    policy: PolicyChange | None = None


class TaskRecord(Record):
    """`task.json`: a pure function of the frozen task, published once."""

    schema_version: Literal["agentcompass.task.v3"] = TASK_SCHEMA
    task_id: str
    category: str | None = None
    ground_truth: JsonValue = None
    attempt_plan: AttemptPlan
    content_sha256: Sha256 | None = None
    """Digest of what the task says, the same wherever it is frozen; see `store.tasks.digest_of`."""
    attempts: dict[str, str]
    """Attempt number -> directory; the value of attempt n is always `attempt-n`."""
