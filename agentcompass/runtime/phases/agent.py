"""From a fresh environment to what the agent left: prepare, run, calm down, collect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pydantic import BaseModel

from agentcompass.benchmarks.base import HarnessFreeBenchmark
from agentcompass.environments.base import Environment
from agentcompass.errors import AttemptFailure
from agentcompass.models.checkpoint import ArtifactManifest
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask
from agentcompass.runtime.calling.interrupts import Limit
from agentcompass.runtime.execution.attempt import Attempt, Parts
from agentcompass.runtime.execution.failures import TABLE, Failure, Where, failure_of
from agentcompass.runtime.execution.handles import lent
from agentcompass.runtime.issues import issue
from agentcompass.runtime.limits import ModelGate, bounds_of, endpoint_place
from agentcompass.runtime.phases.collect import collected_artifacts
from agentcompass.runtime.phases.environment import calmed, closed, opened
from agentcompass.runtime.phases.plugin import tried, wrong_type
from agentcompass.runtime.values import secrets
from agentcompass.runtime.values.cleaning import clean_prepared, clean_result, unwritable


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """What there is when the agent has ended."""

    result: RunResult
    """Strict JSON, without a verdict."""
    prepared: PreparedTask | None = None
    """None if the agent never started."""
    failures: tuple[Failure, ...] = ()
    manifest: ArtifactManifest = ArtifactManifest()  # noqa: RUF009 - frozen
    environment: Environment[BaseModel] | None = None
    """The agent's own, quiet but still open; whoever gets this closes it."""
    agent_from: str = ""
    """Another run, if the agent ran there."""

    @property
    def is_fatal(self) -> bool:
        """True if the task cannot be scored in this run, so that no evaluation follows."""
        own = any(failure.issue.severity == "fatal" for failure in self.failures)
        return own or any(each.severity == "fatal" for each in self.result.issues)

    @property
    def is_clean(self) -> bool:
        """True if the agent ran without an ERROR; only then a snapshot is ever used again."""
        own = any(failure.issue.is_failure for failure in self.failures)
        return not own and not any(each.is_failure for each in self.result.issues)


def run_agent(attempt: Attempt, retry: int) -> AgentEnd:
    """Execute the agent once; `retry` tells the folders of several tries apart."""
    limit = attempt.phase(attempt.plan.deadlines.setup_timeout_s, "setup_timeout")
    try:
        model = secrets.endpoint(attempt.plan.model, attempt.site.environ)
    except AttemptFailure as error:
        return _never_started(attempt, failure_of(error, "open"))
    name = f"environment-{retry}"
    environment = opened(attempt, attempt.plan.environment, name, limit, "open")
    if isinstance(environment, Failure):
        return _never_started(attempt, environment)
    with _closed_on_error(environment):
        prepared = _prepared(attempt, environment, limit)
        if isinstance(prepared, Failure):
            return replace(_never_started(attempt, prepared), environment=environment)
        end = _run(attempt, prepared, environment, model, retry)
        if not end.is_fatal:
            end = _collect(attempt, end, prepared, environment, retry)
        return _cleaned(end)


def agent_of(parts: Parts) -> Callable[..., object]:
    """Return the method that acts: the harness's, or that of a benchmark that brings its own."""
    if isinstance(parts.benchmark, HarnessFreeBenchmark):
        return parts.benchmark.run_task
    if parts.harness is None:
        raise TypeError(f"benchmark {parts.benchmark.id!r} has no agent and no harness was loaded")
    return parts.harness.run_task


@contextmanager
def _closed_on_error(environment: Environment[BaseModel]) -> Iterator[None]:
    """Close if the execution is stopped; otherwise whoever gets the environment does."""
    try:
        yield
    except BaseException:
        closed(environment)
        raise


def _never_started(attempt: Attempt, failure: Failure) -> AgentEnd:
    return AgentEnd(_empty(attempt), failures=(failure,))


def _empty(attempt: Attempt) -> RunResult:
    return RunResult(task_id=attempt.spec.task_id, ground_truth=attempt.spec.ground_truth)


def _prepared(
    attempt: Attempt, environment: Environment[BaseModel], limit: Limit
) -> PreparedTask | Failure:
    prepare = attempt.parts.benchmark.prepare
    with lent(environment, prepare, limit) as handle:
        prepared = tried("prepare", limit, prepare, attempt.spec, handle)
    if isinstance(prepared, Failure):
        return prepared
    found: object = prepared
    if not isinstance(found, PreparedTask):
        return wrong_type("prepare", "prepare", found, "PreparedTask")
    if prepared.task_id != attempt.spec.task_id:
        return _other_task("prepare", prepared.task_id)
    return clean_prepared(prepared)


def _other_task(where: Where, task_id: str) -> Failure:
    default = TABLE[where]
    message = f"{where} returned another task's result: {task_id!r}"
    return Failure(issue(default.severity, default.phase, default.code, message))


def _run(
    attempt: Attempt,
    prepared: PreparedTask,
    environment: Environment[BaseModel],
    model: ModelEndpoint,
    retry: int,
) -> AgentEnd:
    run_task = agent_of(attempt.parts)
    limit = attempt.phase(attempt.plan.deadlines.run_timeout_s, "run_timeout")
    context = attempt.context(f"harness-{retry}", limit)
    with lent(environment, run_task, limit) as handle, _gated(attempt, model, limit) as gated:
        found = tried("run", limit, run_task, prepared, handle, gated, context)
    result, failures = accepted("run", "run_task", found, _empty(attempt))
    if isinstance(gated.gate, ModelGate):
        telemetry = {**result.telemetry, **gated.gate.telemetry()}
        result = result.model_copy(update={"telemetry": telemetry})
    if result.status != "completed" and not failures:
        failures = _status_without_issue(result)
    if result.ground_truth is None:
        result = result.model_copy(update={"ground_truth": prepared.ground_truth})
    return AgentEnd(result, prepared, failures, environment=environment)


@contextmanager
def _gated(attempt: Attempt, model: ModelEndpoint, limit: Limit) -> Iterator[ModelEndpoint]:
    """Yield the model with a gate if the run limits its calls."""
    limits, turns = attempt.limits.model, attempt.turns
    if limits is None or turns is None:
        yield model
        return
    gate = ModelGate(
        turns,
        endpoint_place(model.spec),
        bounds_of(limits),
        partial(attempt.standing_still, limit, "run_timeout"),
    )
    try:
        yield replace(model, gate=gate)
    finally:
        gate.close()


def accepted(
    where: Where, method: str, found: object, before: RunResult
) -> tuple[RunResult, tuple[Failure, ...]]:
    """Return the result of a plug-in's method, or the one before it and what went wrong."""
    if isinstance(found, Failure):
        kept = found.partial if found.partial is not None else before
        if kept.task_id != before.task_id:
            return before, (found, _other_task(where, kept.task_id))
        return kept, (found,)
    if not isinstance(found, RunResult):
        return before, (wrong_type(where, method, found, "RunResult"),)
    if found.task_id != before.task_id:
        return before, (_other_task(where, found.task_id),)
    return found, ()


def _status_without_issue(result: RunResult) -> tuple[Failure, ...]:
    """Turn a bad status that nothing explains into an issue: nothing may be dropped silently."""
    if any(each.is_failure for each in result.issues):
        return ()
    text = f"the harness reports status {result.status!r} and no issue"
    return (Failure(issue("error", "run", "run_failed", text)),)


def _collect(
    attempt: Attempt,
    end: AgentEnd,
    prepared: PreparedTask,
    environment: Environment[BaseModel],
    retry: int,
) -> AgentEnd:
    limit = attempt.phase(attempt.plan.deadlines.collect_timeout_s, "collect_timeout")
    still_running = calmed(environment, limit, "collect")
    if still_running is not None:
        return replace(end, failures=(*end.failures, still_running))
    collect = attempt.parts.benchmark.collect_artifacts
    with lent(environment, collect, limit) as handle:
        found = tried("collect", limit, collect, prepared, end.result, handle)
    result, failures = accepted("collect", "collect_artifacts", found, end.result)
    collected = collected_artifacts(attempt, environment, limit, retry)
    return replace(
        end,
        result=result,
        failures=(*end.failures, *failures, *collected.failures),
        manifest=collected.manifest,
    )


def _cleaned(end: AgentEnd) -> AgentEnd:
    """Turn the result into strict JSON before anybody stores or evaluates it."""
    result, problems = clean_result(end.result)
    found = tuple(Failure(each) for each in unwritable(problems, "run"))
    return replace(end, result=result, failures=(*end.failures, *found))
