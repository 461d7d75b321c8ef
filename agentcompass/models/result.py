"""What an attempt produced: in flight (`RunResult`) and as published (`AttemptResult`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
)

from agentcompass.models.base import Frozen, JsonObject, Record, Timestamp
from agentcompass.models.issue import Issue
from agentcompass.models.task import TaskId
from agentcompass.models.trajectory import Trajectory

Observation = Annotated[StrictBool | StrictInt | StrictFloat, Field()]
AttemptStatus = Literal[
    "completed",
    "run_error",
    "eval_error",
    "run_error_or_eval_error",
    "skipped",
    "cancelled",
    "interrupted",
]
TERMINAL_STATUSES = frozenset(
    {"completed", "run_error", "eval_error", "run_error_or_eval_error", "skipped"}
)
"""`cancelled` and `interrupted` are only read, of other writers, and are not terminal."""


class RunResult(BaseModel):
    """The result of an agent on its way through collect and evaluate.

    Plug-ins fill it with whatever they have; the runtime turns it into strict JSON before it is
    snapshotted, so an evaluation resumed from disk sees what a first one sees.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    task_id: TaskId
    status: str = "completed"
    final_answer: object = None
    ground_truth: object = None
    trajectory: Trajectory | None = None
    issues: tuple[Issue, ...] = ()
    artifacts: Mapping[str, object] = Field(default_factory=dict)
    metrics: Mapping[str, object] = Field(default_factory=dict)
    """Observations by metric id; what the contract does not declare is dropped with an issue."""
    telemetry: Mapping[str, object] = Field(default_factory=dict)
    extra: Mapping[str, object] = Field(default_factory=dict)
    """Evidence of the benchmark; published as `meta.benchmark`."""

    def observed(self, **metrics: object) -> Self:
        """Return a copy with these observations added."""
        return self.model_copy(update={"metrics": {**self.metrics, **metrics}})

    def with_issues(self, issues: Iterable[Issue]) -> Self:
        """Return a copy with these issues appended."""
        return self.model_copy(update={"issues": (*self.issues, *issues)})


class AttemptMeta(Record):
    """Evidence of the benchmark and diagnostics of the harness; never an observation."""

    benchmark: JsonObject = Field(default_factory=dict)
    harness: JsonObject = Field(default_factory=dict)


class AttemptResult(Record):
    """`result.json`: one terminal attempt, published once.

    The fields from `schema_version` to `agent_from` are ours; other writers leave them out.
    """

    schema_version: Literal["agentcompass.attempt_result.v1"] = "agentcompass.attempt_result.v1"
    task_id: str = ""
    attempt: int = 0
    leg: int = 1
    token: str = ""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    worker: str = ""
    reused_from: str = ""
    """The id of the run that it was taken from by reuse, which paid for it; "" if it is this one."""
    agent_from: str = ""
    """The id of the run in which its agent ran, if only its evaluation ran in this one."""
    status: AttemptStatus
    metrics: dict[str, Observation]
    final_answer: JsonValue
    error: str = ""
    issues: tuple[Issue, ...] = ()
    artifacts: JsonObject
    analysis_result: JsonObject = Field(default_factory=dict)
    meta: AttemptMeta
    retry_count: int = Field(default=0, ge=0)
    trajectory: Trajectory | None
    """The last key of the file, so that a reader of numbers can stop before it."""

    @property
    def is_terminal(self) -> bool:
        """True if this attempt is over; see `TERMINAL_STATUSES`."""
        return self.status in TERMINAL_STATUSES


class AttemptOutcome(Frozen):
    """What the metrics need to know of one terminal attempt."""

    metrics: dict[str, Observation]
    issues: tuple[Issue, ...] = ()
    skipped: bool = False
    """Strategy `pass` did not need this attempt: neither error nor missing."""


class TaskOutcomes(Frozen):
    """One task of the frozen list with its k attempts in order; None = no terminal result."""

    task_id: str
    category: str
    attempts: tuple[AttemptOutcome | None, ...]


def status_of(issues: Iterable[Issue]) -> AttemptStatus:
    """Derive the status from the phases of non-warning issues (contracts, §10).

    Phases up to `collect` are the run's; `evaluate` is the evaluation's; both give
    `run_error_or_eval_error`.
    """
    phases = {issue.phase for issue in issues if issue.is_failure}
    in_evaluation = "evaluate" in phases
    in_run = bool(phases - {"evaluate"})
    if in_run and in_evaluation:
        return "run_error_or_eval_error"
    if in_run:
        return "run_error"
    return "eval_error" if in_evaluation else "completed"


def error_text(issues: Iterable[Issue]) -> str:
    """Join the messages of non-warning issues; "" if there are none."""
    return "; ".join(issue.message for issue in issues if issue.is_failure)
