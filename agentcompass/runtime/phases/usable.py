"""Whether a snapshot can be evaluated; apart, because reading runs needs no plug-ins."""

from __future__ import annotations

from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.plan import ExecutionPlan


def why_unusable(
    checkpoint: Checkpoint | None, task_id: str, attempt: int, plan: ExecutionPlan, first_leg: int
) -> str:
    """Return why an evaluation cannot start from this checkpoint, "" if it can.

    The artifacts' checksums are still to be verified.

    Args:
        first_leg: from which on a snapshot of this attempt counts (`Legs.snapshot_from_leg`): a
            rerun that wants the agent again takes the older ones from it.
    """
    snapshot = checkpoint.evaluation if checkpoint is not None else None
    if checkpoint is None or snapshot is None:
        return "there is no snapshot"
    rules = (
        ((snapshot.task_id, snapshot.attempt) == (task_id, attempt), "it is of another attempt"),
        (snapshot.run_completed, "the agent did not run cleanly"),
        (snapshot.mode == plan.evaluation_mode, f"its evaluation mode was {snapshot.mode}"),
        (snapshot.mode != "reuse", "the agent's environment is gone"),
        (checkpoint.scheduler.leg >= first_leg, "the attempt was reopened since"),
    )
    return next((reason for is_kept, reason in rules if not is_kept), "")
