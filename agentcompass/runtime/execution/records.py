"""Builds the record of an attempt from what its phases returned, or from why none ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from agentcompass.models.base import JsonObject
from agentcompass.models.checkpoint import ArtifactManifest, Checkpoint
from agentcompass.models.issue import Issue, Phase
from agentcompass.models.result import (
    AttemptMeta,
    AttemptResult,
    Observation,
    RunResult,
    error_text,
    status_of,
)
from agentcompass.runtime.execution.attempt import Identity
from agentcompass.runtime.execution.failures import Failure
from agentcompass.runtime.issues import issue

_ORDER: Final[Mapping[Phase, int]] = {
    "setup": 0,
    "run": 1,
    "collect": 2,
    "evaluate": 3,
    "cleanup": 4,
}
_KILLED: Final[Mapping[str, Issue]] = {
    "setup_timeout": issue("fatal", "setup", "setup_failed", "the set-up did not end in its time"),
    "run_timeout": issue("error", "run", "run_timeout", "the agent did not end in its time"),
    "collect_timeout": issue(
        "fatal", "collect", "artifact_transfer_failed", "the collection did not end in its time"
    ),
    "evaluation_timeout": issue(
        "error", "evaluate", "evaluation_timeout", "the evaluation did not end in its time"
    ),
}
"""What a keeper's note means: the code could not be interrupted, its process was killed."""

_EMPTY: Final = ArtifactManifest()


def attempt_result(
    identity: Identity,
    times: tuple[datetime, datetime],
    result: RunResult,
    failures: Sequence[Failure] = (),
    *,
    metrics: Mapping[str, Observation] | None = None,
    manifest: ArtifactManifest = _EMPTY,
) -> AttemptResult:
    """Return the record of an attempt; `result` is strict JSON already.

    Args:
        identity: whose record it is.
        times: start and end of the execution.
        result: of the agent, with the evidence of the benchmark.
        failures: what went wrong, beside what `result` says itself.
        metrics: valid observations.
        manifest: the files that this execution collected.
    """
    issues = in_order((*result.issues, *(failure.issue for failure in failures)))
    # Its values are strict JSON since `cleaning`, and typed: to validate them once more costs time.
    return AttemptResult.model_construct(
        task_id=identity.task_id,
        attempt=identity.attempt,
        leg=identity.leg,
        token=identity.token,
        worker=identity.worker,
        started_at=times[0],
        finished_at=times[1],
        status=status_of(issues),
        metrics=dict(metrics or {}),
        final_answer=result.final_answer,  # type: ignore[arg-type]  # see above
        error=error_text(issues),
        issues=issues,
        artifacts=_artifacts(result, failures, manifest),
        analysis_result={},  # named, because pydantic takes longest over default factories
        meta=AttemptMeta.model_construct(
            benchmark=_object(result.extra), harness=_harness(_object(result.telemetry))
        ),
        trajectory=result.trajectory,
    )


def without_execution(
    identity: Identity, times: tuple[datetime, datetime], why: Issue
) -> AttemptResult:
    """Return the record of an attempt that was not executed, because of one issue."""
    return attempt_result(identity, times, RunResult(task_id=identity.task_id), (Failure(why),))


def worker_lost(deaths: int) -> Issue:
    """Return the issue of an attempt that ended every process it was started in."""
    text = f"its process died {deaths} times, each time executed alone; no cause was reported"
    return issue("fatal", "run", "worker_lost", text)


def is_timeout(reason: str) -> bool:
    """Return True if a kill note stands for a result; `cancelled` and the like do not."""
    return reason in _KILLED


def killed(
    identity: Identity,
    times: tuple[datetime, datetime],
    reason: str,
    snapshot: Checkpoint | None,
) -> AttemptResult:
    """Return the record of an attempt whose process was killed at its hard deadline.

    What a snapshot of that very execution holds is kept: the agent had finished.
    """
    failure = (Failure(_KILLED[reason]),)
    if snapshot is None or snapshot.evaluation is None:
        return attempt_result(identity, times, RunResult(task_id=identity.task_id), failure)
    found = snapshot.evaluation
    result = RunResult.model_validate(
        found.run_result.model_dump(exclude={"trajectory", "issues"})
    ).model_copy(
        update={"trajectory": found.run_result.trajectory, "issues": found.run_result.issues}
    )
    record = attempt_result(identity, times, result, failure, manifest=found.artifacts)
    return record.model_copy(update={"agent_from": found.agent_from})


def skipped(identity: Identity, now: datetime) -> AttemptResult:
    """Return the record of an attempt that strategy `pass` does not need."""
    blank = attempt_result(identity, (now, now), RunResult(task_id=identity.task_id))
    return blank.model_copy(update={"status": "skipped"})


def in_order(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """Return issues by phase, and within a phase as they came."""
    return tuple(sorted(issues, key=lambda each: _ORDER[each.phase]))


def _artifacts(
    result: RunResult, failures: Sequence[Failure], manifest: ArtifactManifest
) -> JsonObject:
    artifacts = _object(result.artifacts)
    if manifest.entries:
        artifacts = {**artifacts, "manifest": manifest.model_dump(mode="json")}
    diagnostics = "\n".join(each.diagnostics for each in failures if each.diagnostics)
    if diagnostics:
        artifacts = {**artifacts, "execution_diagnostics": diagnostics}
    return artifacts


def _harness(telemetry: JsonObject) -> JsonObject:
    return {"telemetry": telemetry} if telemetry else {}


def _object(value: Mapping[str, object]) -> JsonObject:
    """Narrow what `cleaning` has made strict JSON."""
    return dict(value)  # type: ignore[arg-type]  # see the docstring
