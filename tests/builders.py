"""One function per type, with a default for everything, so that a test names only its subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from agentcompass.models.issue import Issue, Phase, Severity
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.plan import Deadlines, ExecutionPlan, ResolvedPlans
from agentcompass.models.request import AttemptPlan, ComponentSpec, ModelSpec, Request
from agentcompass.models.result import (
    AttemptMeta,
    AttemptOutcome,
    AttemptResult,
    Observation,
    TaskOutcomes,
    error_text,
    status_of,
)
from agentcompass.models.run_info import RunInfo
from agentcompass.models.task import TaskSpec

T0 = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def a_task(task_id: str = "task-1", *, category: str | None = None) -> TaskSpec:
    return TaskSpec(task_id=task_id, question="2 + 2?", category=category, ground_truth="4")


def an_issue(
    severity: Severity = "error",
    phase: Phase = "run",
    code: str = "run_failed",
    message: str = "it broke",
) -> Issue:
    return Issue(severity=severity, phase=phase, code=code, message=message)


def a_contract(
    primary: Literal["binary_success", "scalar"] = "binary_success", *extra: MetricSpec
) -> MetricContract:
    name = "correct" if primary == "binary_success" else "score"
    return MetricContract(metrics=(MetricSpec(metric_id=name, kind=primary, primary=True), *extra))


def an_outcome(*issues: Issue, skipped: bool = False, **metrics: Observation) -> AttemptOutcome:
    return AttemptOutcome(metrics=metrics, issues=issues, skipped=skipped)


def a_task_with_outcomes(
    *attempts: AttemptOutcome | None, task_id: str = "task-1", category: str = "__uncategorized__"
) -> TaskOutcomes:
    return TaskOutcomes(task_id=task_id, category=category, attempts=attempts)


def a_result(
    task_id: str = "task-1",
    attempt: int = 1,
    *,
    metrics: Mapping[str, Observation] | None = None,
    issues: Sequence[Issue] = (),
    leg: int = 1,
    token: str = "t" * 16,
) -> AttemptResult:
    return AttemptResult(
        task_id=task_id,
        attempt=attempt,
        leg=leg,
        token=token,
        started_at=T0,
        finished_at=T0 + timedelta(seconds=90),
        worker="worker@host",
        status=status_of(issues),
        metrics=dict({"correct": True} if metrics is None else metrics),
        final_answer="4",
        error=error_text(issues),
        issues=tuple(issues),
        artifacts={},
        meta=AttemptMeta(),
        trajectory=None,
    )


def a_request(*, k: int = 1, strategy: str = "avg", benchmark: str = "bench") -> Request:
    plain = Request(benchmark=ComponentSpec(id=benchmark), model=ModelSpec(id="model"))
    execution = plain.execution.model_copy(update={"attempts": AttemptPlan(k=k, strategy=strategy)})
    return plain.model_copy(update={"execution": execution})


def a_plan(benchmark: str = "bench") -> ExecutionPlan:
    return ExecutionPlan(
        benchmark=ComponentSpec(id=benchmark),
        harness=ComponentSpec(id="none"),
        environment=ComponentSpec(id="host_process"),
        evaluation_environment=None,
        evaluation_mode="none",
        model=ModelSpec(id="model"),
        deadlines=Deadlines(
            setup_timeout_s=60, run_timeout_s=60, collect_timeout_s=60, evaluate_timeout_s=60
        ),
    )


def a_run_info(request: Request | None = None, *, tasks: int = 1, run_id: str = "run-1") -> RunInfo:
    """Return the info of a planned run, before its seal."""
    request = request or a_request()
    digest = "0" * 64
    return RunInfo(
        run_id=run_id,
        started_at=T0,
        request=request,
        task_count=tasks,
        attempt_count=tasks * request.execution.attempts.k,
        metric_contract=a_contract(),
        resolved_execution_plans=ResolvedPlans(
            plans={digest: a_plan(request.benchmark.id)}, default=digest
        ),
    )
