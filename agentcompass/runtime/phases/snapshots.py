"""The post-agent snapshot: written when the agent has ended, read when only the verdict is missing."""

from __future__ import annotations

from agentcompass.models.checkpoint import Checkpoint, SchedulerState, Snapshot, SnapshotResult
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.runtime.normalize import Normalizer
from agentcompass.runtime.phases.agent import AgentEnd
from agentcompass.runtime.values.cleaning import clean_model, may_hold
from agentcompass.runtime.values.masking import Masker


def checkpoint_of(
    attempt: Attempt, end: AgentEnd, prepared: PreparedTask, retries: int
) -> Checkpoint:
    """Return the checkpoint of an agent that has ended; live secrets are references in it."""
    own = attempt.identity
    found = end.result
    result = SnapshotResult.model_construct(  # strict JSON since `cleaning`: nothing to validate
        task_id=found.task_id,
        status=found.status,
        final_answer=found.final_answer,  # type: ignore[arg-type]  # see above
        ground_truth=found.ground_truth,  # type: ignore[arg-type]
        trajectory=found.trajectory,
        issues=(*found.issues, *(failure.issue for failure in end.failures)),
        artifacts=dict(found.artifacts),  # type: ignore[arg-type]
        telemetry=dict(found.telemetry),  # type: ignore[arg-type]
        extra=dict(found.extra),  # type: ignore[arg-type]
    )
    if attempt.secrets and may_hold(attempt.secrets, result, prepared):
        writer = Normalizer(text=attempt.secrets.for_snapshot)
        result = clean_model(writer, result, "run_result")
        prepared = clean_model(writer, prepared, "prepared_task")
    snapshot = Snapshot(
        task_id=own.task_id,
        attempt=own.attempt,
        mode=attempt.plan.evaluation_mode,
        run_completed=end.is_clean,
        retry_count=retries,
        agent_from=end.agent_from,
        run_result=result,
        prepared_task=prepared,
        artifacts=end.manifest,
    )
    return Checkpoint(
        scheduler=SchedulerState(
            state="agent_finished",
            execution=len(attempt.view.marks) + 1,
            worker=own.worker,
            token=own.token,
            leg=own.leg,
            started_at=attempt.started_at,
            updated_at=attempt.site.now(),
        ),
        evaluation=snapshot,
    )


def end_of(snapshot: Snapshot, secrets: Masker) -> AgentEnd:
    """Return what the agent left, as a first evaluation saw it.

    Raises:
        AttemptFailure: FATAL setup `secret_missing`, if a secret cannot be put back.
    """
    found, prepared = snapshot.run_result, snapshot.prepared_task
    writer = Normalizer(text=secrets.put_back)
    found = clean_model(writer, found, "run_result")
    prepared = clean_model(writer, prepared, "prepared_task")
    result = RunResult(
        task_id=found.task_id,
        status=found.status,
        final_answer=found.final_answer,
        ground_truth=found.ground_truth,
        trajectory=found.trajectory,
        issues=found.issues,
        artifacts=found.artifacts,
        telemetry=found.telemetry,
        extra=found.extra,
    )
    return AgentEnd(result, prepared, manifest=snapshot.artifacts, agent_from=snapshot.agent_from)
