"""The verdict: in no environment, in the agent's own, or in a fresh one with its artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from agentcompass.environments.base import Environment
from agentcompass.errors import AttemptFailure
from agentcompass.models.checkpoint import ArtifactManifest
from agentcompass.models.result import Observation, RunResult
from agentcompass.models.task import PreparedTask
from agentcompass.runtime.calling.interrupts import Limit
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.runtime.execution.failures import Failure
from agentcompass.runtime.execution.handles import BlockingHandle, lent
from agentcompass.runtime.issues import issue
from agentcompass.runtime.phases.agent import AgentEnd, accepted
from agentcompass.runtime.phases.environment import calmed, closed, opened
from agentcompass.runtime.phases.plugin import tried
from agentcompass.runtime.values.cleaning import clean_result, unwritable
from agentcompass.runtime.values.observe import observations
from agentcompass.store.artifacts import locate, verify_artifacts


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evaluation made of an agent's result."""

    result: RunResult
    """The agent's, with the benchmark's evidence and issues added; strict JSON."""
    metrics: dict[str, Observation]
    failures: tuple[Failure, ...] = ()


def evaluate(attempt: Attempt, end: AgentEnd, prepared: PreparedTask, retry: int) -> Verdict:
    """Judge what the agent left. An environment in `end` is used in mode `reuse` only."""
    limit = attempt.phase(attempt.plan.deadlines.evaluate_timeout_s, "evaluation_timeout")
    match attempt.plan.evaluation_mode:
        case "none":
            return _judge(attempt, end, prepared, None, limit)
        case "reuse":
            return _in_the_agents(attempt, end, prepared, limit)
        case "fresh":
            return _in_a_fresh_one(attempt, end, prepared, limit, retry)


def _in_the_agents(
    attempt: Attempt, end: AgentEnd, prepared: PreparedTask, limit: Limit
) -> Verdict:
    if end.environment is None:
        text = "the agent's environment is gone; mode reuse cannot evaluate without it"
        gone = Failure(issue("error", "evaluate", "evaluate_failed", text))
        return Verdict(end.result, {}, (gone,))
    still_running = calmed(end.environment, limit, "evaluate")
    if still_running is not None:
        return Verdict(end.result, {}, (still_running,))
    return _judge(attempt, end, prepared, end.environment, limit)


def _in_a_fresh_one(
    attempt: Attempt, end: AgentEnd, prepared: PreparedTask, limit: Limit, retry: int
) -> Verdict:
    spec = attempt.plan.evaluation_environment or attempt.plan.environment
    environment = opened(attempt, spec, f"evaluation-{retry}", limit, "fresh_environment")
    if isinstance(environment, Failure):
        return Verdict(end.result, {}, (environment,))
    failures: tuple[Failure, ...] = ()
    try:
        restored = _restored(attempt, end.manifest, environment, limit)
        if restored is not None:
            verdict = Verdict(end.result, {}, (restored,))
        else:
            verdict = _judge(attempt, end, prepared, environment, limit)
    finally:
        not_closed = closed(environment)
        failures = (not_closed,) if not_closed is not None else ()
    return Verdict(verdict.result, verdict.metrics, (*verdict.failures, *failures))


def _restored(
    attempt: Attempt, manifest: ArtifactManifest, environment: Environment[BaseModel], limit: Limit
) -> Failure | None:
    """Put the agent's artifacts where they were, every checksum verified."""
    if not manifest.entries:
        return None
    found = tried("evaluate", limit, partial(_restore, attempt, manifest, environment, limit))
    return found if isinstance(found, Failure) else None


def _restore(
    attempt: Attempt, manifest: ArtifactManifest, environment: Environment[BaseModel], limit: Limit
) -> None:
    problems = verify_artifacts(attempt.run_dir, manifest)
    if problems:
        text = f"artifacts are not what was collected: {'; '.join(problems[:3])}"
        raise AttemptFailure("error", "evaluate", "artifacts_altered", text)
    base = locate(attempt.run_dir, manifest.directory) or Path()
    handle = BlockingHandle(environment, limit)
    for entry in manifest.entries:
        if entry.status == "collected":
            handle.upload(base / entry.destination, entry.source)


def _judge(
    attempt: Attempt,
    end: AgentEnd,
    prepared: PreparedTask,
    environment: Environment[BaseModel] | None,
    limit: Limit,
) -> Verdict:
    method = attempt.parts.benchmark.evaluate
    if environment is None:
        found = tried("evaluate", limit, method, prepared, end.result, None)
    else:
        with lent(environment, method, limit) as handle:
            found = tried("evaluate", limit, method, prepared, end.result, handle)
    result, failures = accepted("evaluate", "evaluate", found, end.result)
    metrics, refused = observations(result.metrics, attempt.contract)
    result, problems = clean_result(_with_evidence(end.result, result))
    issues = [*refused, *unwritable(problems, "evaluate")]
    primary = attempt.contract.primary.metric_id
    if primary not in metrics and not issues and not failures:
        text = f"evaluate did not observe {primary!r}, so the attempt has no value"
        issues.append(issue("warning", "evaluate", "no_observation", text))
    return Verdict(result, metrics, (*failures, *(Failure(each) for each in issues)))


def _with_evidence(agents: RunResult, evaluated: RunResult) -> RunResult:
    """Return the agent's result with what the evaluation added.

    What the agent did is not the evaluation's to change: answer, trajectory and telemetry stay,
    and so do the issues of a result that `evaluate` built anew instead of copying.
    """
    added = tuple(each for each in evaluated.issues if each not in agents.issues)
    return agents.model_copy(
        update={
            "issues": (*agents.issues, *added),
            "artifacts": {**agents.artifacts, **evaluated.artifacts},
            "extra": {**agents.extra, **evaluated.extra},
        }
    )
