"""Decisions of people about a run that is sealed: cancel, pause, and what follows at once.

Each is one record in `control/`. Workers find it by themselves; a nudge only makes it faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from agentcompass.coordinator.snapshot import look_at
from agentcompass.errors import UsageError
from agentcompass.models.run_info import AttemptRef, ControlAction, ControlRecord, RunInfo
from agentcompass.store import control, run_info, sealed, tasks


def cancel(
    run_dir: Path, *, attempts: Sequence[AttemptRef] = (), reason: str, by: str, at: datetime
) -> RunInfo:
    """Stop the whole run, or only the named attempts, for good until a resume; keep every result.

    Raises:
        RunNotFound, RunNotSealed: there is nothing to cancel.
    """
    return _decide(run_dir, "cancel", attempts, reason=reason, by=by, at=at)


def pause(run_dir: Path, *, reason: str, by: str, at: datetime) -> RunInfo:
    """Hand out nothing more until a resume; what executes goes on to its end."""
    return _decide(run_dir, "pause", (), reason=reason, by=by, at=at)


def interrupt(run_dir: Path, *, reason: str, by: str, at: datetime) -> RunInfo:
    """Say that the coordinator of an embedded run, and with it its workers, was stopped."""
    return _decide(run_dir, "interrupt", (), reason=reason, by=by, at=at)


def stoppable(run_dir: Path, attempts: Sequence[AttemptRef] = ()) -> tuple[AttemptRef, ...]:
    """Return what is not over yet: of the named attempts, or of all; none: there is nothing to stop.

    Raises:
        RunNotFound, RunNotSealed: there is no work in it at all.
        RecordCorrupt: a result that must be read for that cannot be.
    """
    left = {
        (task.task_id, number)
        for task in look_at(run_dir, sealed.load_sealed(run_dir)).work
        for number in task.numbers
    }
    if attempts:
        return tuple(ref for ref in attempts if (ref.task_id, ref.attempt) in left)
    return tuple(AttemptRef(task_id=task_id, attempt=number) for task_id, number in sorted(left))


def refs_of(run_dir: Path, task_id: str, attempt: int | None) -> tuple[AttemptRef, ...]:
    """Return one attempt of a task, or all of them.

    Raises:
        UsageError: the run has no such task or attempt.
    """
    k = sealed.load_sealed(run_dir).request.execution.attempts.k
    known = [entry.task_id for entry in tasks.entries(run_dir)]
    if task_id not in known:
        near = get_close_matches(task_id, known, n=1, cutoff=0.6)
        raise UsageError(
            f"the run has no task {task_id!r}",
            where=str(run_dir),
            hint=f"did you mean {near[0]!r}?" if near else f"it has {len(known)} tasks",
        )
    if attempt is not None and not 1 <= attempt <= k:
        raise UsageError(f"task {task_id!r} has attempts 1 to {k}, not {attempt}")
    numbers = range(1, k + 1) if attempt is None else (attempt,)
    return tuple(AttemptRef(task_id=task_id, attempt=number) for number in numbers)


def _decide(
    run_dir: Path,
    action: ControlAction,
    attempts: Sequence[AttemptRef],
    *,
    reason: str,
    by: str,
    at: datetime,
) -> RunInfo:
    sealed.load_sealed(run_dir)
    control.append(
        run_dir,
        lambda current: ControlRecord(
            leg=current, action=action, attempts=tuple(attempts), reason=reason, by=by, at=at
        ),
    )
    return run_info.refresh(run_dir)
