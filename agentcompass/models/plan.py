"""How one attempt is executed: resolved once by the coordinator, read by every worker."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentcompass.models.base import Frozen, JsonObject, Sha256
from agentcompass.models.issue import Issue
from agentcompass.models.request import ComponentSpec, ModelSpec

EvaluationMode = Literal["none", "reuse", "fresh"]


class Deadlines(Frozen):
    """Seconds for each phase, multipliers already applied."""

    setup_timeout_s: float = Field(gt=0)
    run_timeout_s: float = Field(gt=0)
    collect_timeout_s: float = Field(gt=0)
    evaluate_timeout_s: float = Field(gt=0)


class RetryPolicy(Frozen):
    """Retries inside one attempt; severity is never inferred from text, a pattern only allows."""

    max_retries: int = Field(default=2, ge=0)
    patterns: tuple[str, ...] = ()
    base_delay_s: float = 5.0
    max_delay_s: float = 60.0


class ExecutionPlan(Frozen):
    """An allow-listed view: everything a worker needs, nothing that is a secret.

    Equal plans are stored once per run, under the digest of their canonical JSON.
    """

    benchmark: ComponentSpec
    harness: ComponentSpec
    environment: ComponentSpec
    evaluation_environment: ComponentSpec | None
    evaluation_mode: EvaluationMode
    model: ModelSpec
    deadlines: Deadlines
    retry: RetryPolicy = RetryPolicy()
    analyzers: tuple[ComponentSpec, ...] = ()
    recipes: tuple[str, ...] = ()
    failure: Issue | None = None
    """Set when planning this task failed; the worker records it and executes nothing."""


class TaskPlans(Frozen):
    """The plans of one task that differ from the default: attempt number -> digest."""

    attempts: dict[str, Sha256]


class ReusedPlans(Frozen):
    """The plans under which attempts were executed elsewhere, before reuse took their results.

    Nothing is executed by them: a taken attempt that is run again runs under this run's own plan.
    """

    plans: dict[Sha256, JsonObject]
    """As the source had them; another writer's have a shape of their own."""
    default: Sha256
    """Of most taken attempts."""
    tasks: dict[str, TaskPlans] = Field(default_factory=dict)
    """The taken attempts that differ from the default."""


class ResolvedPlans(Frozen):
    """`run_info.json.resolved_execution_plans`: content by digest, and who differs from the default."""

    plans: dict[Sha256, ExecutionPlan]
    default: Sha256
    tasks: dict[str, TaskPlans] = Field(default_factory=dict)
    reused: ReusedPlans | None = None

    def plan_of(self, task_id: str, attempt: int) -> ExecutionPlan:
        """Return the plan of one attempt; KeyError if a digest has no content."""
        own = self.tasks.get(task_id)
        digest = own.attempts.get(str(attempt), self.default) if own else self.default
        return self.plans[digest]
