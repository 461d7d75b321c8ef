"""Executes one attempt to its end: environment, agent, snapshot, verdict, and all retries.

```
open -> prepare -> run -> quiesce -> collect -> snapshot -> evaluate -> analyze -> record
```

A failure of any step is a value that ends up among the record's issues. Only `Stopped` is raised,
when somebody outside ends the execution; and errors of the results folder, which are nobody's
attempt's fault.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from agentcompass.errors import AttemptFailure
from agentcompass.models.base import JsonObject
from agentcompass.models.checkpoint import Snapshot
from agentcompass.models.issue import Issue
from agentcompass.models.result import AttemptResult, Observation, RunResult, error_text, status_of
from agentcompass.runtime.calling.interrupts import Stopped
from agentcompass.runtime.execution import records
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.runtime.execution.failures import Failure, failure_of, safe_text
from agentcompass.runtime.execution.retries import decide_retry, wished_s
from agentcompass.runtime.issues import issue
from agentcompass.runtime.phases import snapshots
from agentcompass.runtime.phases.agent import AgentEnd, run_agent
from agentcompass.runtime.phases.analyze import analyzed
from agentcompass.runtime.phases.environment import closed
from agentcompass.runtime.phases.evaluate import evaluate
from agentcompass.runtime.values.cleaning import masked_result, may_hold
from agentcompass.store import attempts

logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Try:
    """One pass through the phases."""

    end: AgentEnd
    result: RunResult
    metrics: dict[str, Observation]
    failures: tuple[Failure, ...]

    @property
    def all_failures(self) -> tuple[Failure, ...]:
        """What went wrong, the plug-ins' own issues included."""
        return (*(Failure(each) for each in self.result.issues), *self.failures)


def execute(attempt: Attempt, resumed: Snapshot | None = None) -> AttemptResult:
    """Return the terminal record of the attempt, clean and masked, ready to be published.

    Args:
        attempt: the execution; its start mark is made and its lease is held.
        resumed: a verified snapshot of an agent that has finished: only the evaluation runs.

    Raises:
        Stopped: the execution was ended from outside; what it left is in its attempt's directory.
        OSError: the results folder cannot be written.
    """
    used = resumed.retry_count if resumed is not None else attempt.earlier_retries
    try:
        return _until_it_stands(attempt, _resumed(attempt, resumed, used), used)
    finally:
        attempt.remove_folders()


def _until_it_stands(attempt: Attempt, end: AgentEnd | None, used: int) -> AttemptResult:
    """Try, and try again as often as the policy allows."""
    while True:
        tried = _one_try(attempt, end, used)
        retry = decide_retry(
            tried.all_failures, attempt.plan.retry, used, attempt.plan.evaluation_mode
        )
        if retry is None:
            return _finished(attempt, tried, used)
        used += 1
        record = _masked(attempt, _record(attempt, tried, used - 1))
        attempts.keep_retry(attempt.view, used, record, with_outputs=not retry.only_evaluation)
        end = tried.end if retry.only_evaluation else None
        delay_s = retry.delay_s(attempt.site.random, wished_s(tried.failures))
        _log_retry(attempt, tried, used, delay_s)
        attempt.pause(delay_s)


def _resumed(attempt: Attempt, snapshot: Snapshot | None, used: int) -> AgentEnd | None:
    """Return what a snapshot says, copied into a checkpoint of this execution."""
    if snapshot is None:
        return None
    try:
        end = snapshots.end_of(snapshot, attempt.secrets)
    except AttemptFailure as error:
        failed = (failure_of(error, "open"),)
        return AgentEnd(RunResult(task_id=attempt.spec.task_id), failures=failed)
    return _snapshotted(attempt, end, used)


def _one_try(attempt: Attempt, end: AgentEnd | None, used: int) -> _Try:
    """Run the agent, unless it has run, and evaluate what it left."""
    if end is None:
        end = run_agent(attempt, used)
        try:
            end = _settled(attempt, end, used)
        except BaseException:
            if end.environment is not None:
                closed(end.environment)
            raise
    if end.is_fatal or end.prepared is None:
        return _Try(end, end.result, {}, end.failures)
    try:
        verdict = evaluate(attempt, end, end.prepared, used)
    finally:
        not_closed = closed(end.environment) if end.environment is not None else None
    end = replace(end, environment=None)
    cleanup = (not_closed,) if not_closed is not None else ()
    failures = (*end.failures, *verdict.failures, *cleanup)
    return _Try(end, verdict.result, verdict.metrics, failures)


def _settled(attempt: Attempt, end: AgentEnd, used: int) -> AgentEnd:
    """Close the agent's environment unless the evaluation needs it, and write the snapshot."""
    needed = attempt.plan.evaluation_mode == "reuse" and not end.is_fatal
    if end.environment is not None and not needed:
        not_closed = closed(end.environment)
        cleanup = (not_closed,) if not_closed is not None else ()
        end = replace(end, environment=None, failures=(*end.failures, *cleanup))
    if attempt.plan.evaluation_mode != "reuse" and not end.is_fatal:
        return _snapshotted(attempt, end, used)
    return end


def _snapshotted(attempt: Attempt, end: AgentEnd, used: int) -> AgentEnd:
    """Write the checkpoint. If the disk refuses, a crash would cost the agent's work, no more."""
    if end.prepared is None:
        return end
    attempt.unwatched()
    checkpoint = snapshots.checkpoint_of(attempt, end, end.prepared, used)
    try:
        is_first = attempts.write_snapshot(attempt.view, checkpoint)
    except OSError as error:
        text = f"the snapshot was not written: {safe_text(error)}"
        refused = Failure(issue("warning", "collect", "snapshot_failed", text))
        return replace(end, failures=(*end.failures, refused))
    if not is_first:
        raise Stopped("lease_lost")  # somebody has published this attempt's result
    return end


def _record(
    attempt: Attempt, tried: _Try, used: int, analysis: JsonObject | None = None
) -> AttemptResult:
    record = records.attempt_result(
        attempt.identity,
        (attempt.started_at, attempt.site.now()),
        tried.result,
        tried.failures,
        metrics=tried.metrics,
        manifest=tried.end.manifest,
    )
    fields = {"retry_count": used, "analysis_result": analysis or {}}
    return record.model_copy(update={**fields, "agent_from": tried.end.agent_from})


def _finished(attempt: Attempt, tried: _Try, used: int) -> AttemptResult:
    record = _record(attempt, tried, used)
    if attempt.parts.analyzers:
        analysis, failures = analyzed(attempt, record)
        tried = replace(tried, failures=(*tried.failures, *failures))
        record = _record(attempt, tried, used, analysis)
    attempt.unwatched()
    return _masked(attempt, record)


def _masked(attempt: Attempt, record: AttemptResult) -> AttemptResult:
    """Mask live secrets in every string. The verdict was made before, on what was really said."""
    if not attempt.secrets or not may_hold(attempt.secrets, record):
        return record
    record = masked_result(record, attempt.secrets)
    if not attempt.secrets.found:
        return record
    text = "a live secret was masked in what is written of this attempt"
    return with_issues(record, [issue("warning", "cleanup", "secret_masked", text)])


def with_issues(record: AttemptResult, added: Sequence[Issue]) -> AttemptResult:
    """Return the record with more issues and what follows from them."""
    issues = records.in_order((*record.issues, *added))
    fields = {"issues": issues, "error": error_text(issues), "status": status_of(issues)}
    return record.model_copy(update=fields)


def _log_retry(attempt: Attempt, tried: _Try, used: int, delay_s: float) -> None:
    reasons = [each.issue.code for each in tried.all_failures if each.issue.is_failure]
    logger.info(
        "try %d discarded (%s); the next one in %.1f s",
        used,
        ", ".join(reasons),
        delay_s,
        extra={"attempt": f"{attempt.identity.task_id}:a{attempt.identity.attempt}"},
    )
