"""Records of ours in the shapes of AgentCompass 1.0.1, whose reader refuses each field too many. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from agentcompass.models.base import JsonObject
from agentcompass.models.issue import Issue
from agentcompass.models.metric import MetricReport, MetricSeries
from agentcompass.models.plan import ExecutionPlan, ResolvedPlans
from agentcompass.models.request import MASK, AttemptPlan, ComponentSpec, Request
from agentcompass.models.result import AttemptResult
from agentcompass.models.run_info import RunInfo
from agentcompass.models.task import TaskSpec

RUN_INFO_SCHEMA: Final = "agentcompass.run_info.v3"
TASK_SCHEMA: Final = "agentcompass.task.v3"
CHECKPOINT_SCHEMA: Final = "agentcompass.attempt_checkpoint.v1"
SCHEDULER_SCHEMA: Final = "agentcompass.logical_attempt.v2"
REDUCERS: Final = frozenset({"native", "avg", "pass"})
"""Those that it knows; series of ours beyond them stay behind."""


def run_info_of(info: RunInfo, plans: ResolvedPlans, specs: Iterable[TaskSpec]) -> JsonObject:
    """Return `run_info.json`. A run that is not over has no status there."""
    request = info.request
    fields: JsonObject = {
        "schema_version": RUN_INFO_SCHEMA,
        "run_id": info.run_id,
        "started_at": info.started_at.isoformat(),
        "request": request_of(request),
        "resolved_execution_plans": _plans(plans, specs, request),
    }
    if info.status != "running":
        finished = info.finished_at or info.started_at
        fields |= {"status": info.status, "finished_at": finished.isoformat()}
    if info.error:
        fields["error"] = info.error
    if info.reused_from is not None:
        source = info.reused_from
        fields["reused_from"] = {"run_id": source.run_id, "path": source.path}
    if info.metric_artifacts is not None:
        made = info.metric_artifacts
        fields["metric_artifacts"] = {
            "generated_at": made.generated_at.isoformat(),
            "source": "evaluation",
            "report": {
                "k": made.report.k,
                "strategy": made.report.strategy,
                "aggregation": made.report.aggregation,
            },
        }
    return fields


def request_of(request: Request) -> JsonObject:
    """Return a request. A secret was a name; there is no place for it there, so it is the mask."""
    model = request.model
    return {
        "benchmark": _component(request.benchmark),
        "harness": _component(request.harness),
        "environment": _component(request.environment),
        "model": {
            "id": model.id,
            "base_url": model.base_url,
            "api_protocol": model.api_protocol,
            "api_key": MASK if model.api_key is not None else "",
            "params": model.params,
        },
        "execution": {
            "attempts": attempt_plan_of(request.execution.attempts),
            "max_retries": request.execution.max_retries,
            "timeout_multiplier": request.execution.timeout_multiplier,
        },
        "output": {"run_id": request.output.run_id or "", "run_name": request.output.run_name},
        "runtime": {"reuse": False},
    }


def params_of(request: Request) -> JsonObject:
    """Return `params.json`."""
    whole = request_of(request)
    return {name: whole[name] for name in ("benchmark", "model", "execution", "output")}


def attempt_plan_of(plan: AttemptPlan) -> JsonObject:
    """Return an attempt plan."""
    return {"k": plan.k, "strategy": plan.strategy}


def task_of(spec: TaskSpec, plan: AttemptPlan, numbers: Iterable[int]) -> JsonObject:
    """Return `task.json`; it names only attempts that have a result."""
    return {
        "schema_version": TASK_SCHEMA,
        "task_id": spec.task_id,
        "attempts": {str(number): f"attempt-{number}" for number in numbers},
        "category": spec.category,
        "ground_truth": spec.ground_truth,
        "attempt_plan": attempt_plan_of(plan),
    }


def result_of(result: AttemptResult) -> JsonObject:
    """Return `result.json`: identity, leg, times and `error` have no place there."""
    trajectory: JsonObject = {}
    if result.trajectory is not None:
        trajectory = result.trajectory.model_dump(mode="json")
    return {
        "status": result.status,
        "metrics": dict(result.metrics),
        "final_answer": result.final_answer,
        "trajectory": trajectory,
        "issues": [_issue(issue) for issue in result.issues],
        "artifacts": result.artifacts,
        "analysis_result": result.analysis_result,
        "meta": {"benchmark": result.meta.benchmark, "harness": result.meta.harness},
        "retry_count": result.retry_count,
    }


def checkpoint_of(result: AttemptResult, *, is_success: bool) -> JsonObject:
    """Return `checkpoint.json`: the attempt is over, and strategy `pass` may stop after it."""
    has_failed = any(issue.is_failure for issue in result.issues)
    return {
        "schema_version": CHECKPOINT_SCHEMA,
        "scheduler": {
            "schema_version": SCHEDULER_SCHEMA,
            "task_id": result.task_id,
            "attempt_index": result.attempt,
            "status": "failed" if has_failed else "completed",
            "stop_requested": is_success and not has_failed,
            "retries": result.retry_count,
            "error": result.error,
            "result_path": "result.json",
        },
    }


def report_of(report: MetricReport) -> JsonObject | None:
    """Return `metrics.json`; None if none of its series is known there."""
    series: list[JsonValue] = [_series(each) for each in report.series if _is_known(each, report.k)]
    if not series:
        return None
    return {
        "k": report.k,
        "strategy": report.strategy,
        "aggregation": report.aggregation,
        "evaluation_failed": report.evaluation_failed,
        "extra": dict(report.extra),
        "series": series,
    }


def _series(series: MetricSeries) -> JsonObject:
    fields: JsonObject = series.model_dump(mode="json")
    fields["extra"] = {}
    if not series.display.label:
        fields["display"] = None
    return fields


def _is_known(series: MetricSeries, k: int) -> bool:
    plain = f"{series.metric_id}.{series.reducer}@{k}"
    return series.reducer in REDUCERS and series.k == k and series.series_id == plain


def _plans(resolved: ResolvedPlans, specs: Iterable[TaskSpec], request: Request) -> JsonObject:
    numbers = range(1, request.execution.attempts.k + 1)
    return {
        spec.task_id: {
            "attempts": {str(n): _plan(resolved.plan_of(spec.task_id, n)) for n in numbers}
        }
        for spec in specs
    }


def _plan(plan: ExecutionPlan) -> JsonObject:
    fresh = plan.evaluation_environment
    return {
        "applied_recipes": list(plan.recipes),
        "environment": {"id": plan.environment.id, "resources": {}, "setup": {}},
        "evaluation_environment": {"id": fresh.id} if fresh is not None else None,
        "evaluation_environment_mode": plan.evaluation_mode,
        "run_timeout_seconds": plan.deadlines.run_timeout_s,
        "evaluation_timeout_seconds": plan.deadlines.evaluate_timeout_s,
    }


def _component(spec: ComponentSpec) -> JsonObject:
    return {"id": spec.id, "params": spec.params}


def _issue(issue: Issue) -> JsonObject:
    return {
        "severity": issue.severity,
        "phase": issue.phase,
        "code": issue.code,
        "message": issue.message,
    }
