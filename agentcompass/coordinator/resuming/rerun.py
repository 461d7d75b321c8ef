"""Which attempts `resume --rerun` runs again, why, and from where.

Whole tasks, because k attempts are one unit. Of each attempt it is decided once whether the agent
runs again or only the evaluation; the control record says so, and every worker goes by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agentcompass.coordinator.deserving import refuse_unknown, why_again, why_agent_again
from agentcompass.coordinator.snapshot import Snapshot
from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.metric import MetricContract
from agentcompass.models.run_info import AttemptRef
from agentcompass.runtime.phases.usable import why_unusable
from agentcompass.store import attempts, disk, layout
from agentcompass.store.legs import AttemptName
from agentcompass.store.results import ResultHead
from agentcompass.store.tasks import TaskEntry

WhyAgent: TypeAlias = Callable[[str, int, ResultHead | None], str]
"""Says why an attempt cannot start at its evaluation, "" if it can: task, attempt, its result."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """One task to run again."""

    task_id: str
    reason: str
    attempts: Mapping[int, str]
    """Those with a result, or cancelled by name; the others are pending anyway. Each with why its
    agent runs again, "" if only its evaluation does."""

    @property
    def refs(self) -> tuple[AttemptRef, ...]:
        """All attempts that are taken their results."""
        return tuple(AttemptRef(task_id=self.task_id, attempt=n) for n in self.attempts)

    @property
    def evaluations(self) -> tuple[AttemptRef, ...]:
        """Those of which the agent does not run again."""
        return tuple(each for each in self.refs if not self.attempts[each.attempt])

    @property
    def evaluated(self) -> Iterator[int]:
        """The attempts that are evaluated again."""
        return (number for number, why in self.attempts.items() if not why)

    @property
    def executed(self) -> Iterator[int]:
        """The attempts that are run again, agent and all."""
        return (number for number, why in self.attempts.items() if why)

    @property
    def described(self) -> str:
        """What happens to which attempt, and why."""
        ways: dict[str, list[str]] = {}
        for number, why in self.attempts.items():
            way = f"run again ({why})" if why else "evaluated again"
            ways.setdefault(way, []).append(str(number))
        parts = "; ".join(f"{', '.join(numbers)} {way}" for way, numbers in ways.items())
        return f"{self.task_id} ({self.reason}): attempt {parts}"


def chosen(
    heads: Iterable[tuple[TaskEntry, Mapping[int, ResultHead]]],
    wanted: Sequence[str],
    contract: MetricContract,
    closed: Mapping[tuple[str, int], str],
    why_agent: WhyAgent,
) -> list[Rerun]:
    """Return the tasks to run again, in frozen order.

    Raises:
        UsageError: a wanted task is not in the run.
    """
    known: list[str] = []
    found: list[Rerun] = []
    for entry, results in heads:
        task_id = entry.task_id
        known.append(task_id)
        outcomes = {number: head.outcome for number, head in results.items()}
        reason = why_again(task_id, outcomes, wanted, contract)
        numbers = {*results, *(number for task, number in closed if task == task_id)}
        if not reason or not numbers:
            continue
        for_all = why_agent_again(task_id, outcomes, wanted, contract)
        again = {n: for_all or why_agent(task_id, n, results.get(n)) for n in sorted(numbers)}
        found.append(Rerun(task_id, reason, again))
    refuse_unknown(wanted, known, "--rerun")
    return found


def snapshots_of(run_dir: Path, seen: Snapshot) -> WhyAgent:
    """Return what looks at the snapshots of a run, every checksum included."""

    def why(task_id: str, attempt: int, head: ResultHead | None) -> str:
        while (found := attempts.find_task(run_dir, task_id)) is not None:
            place = found[1] / layout.attempt_dirname(attempt)
            said = _why_unusable(run_dir, seen, place, (task_id, attempt), head)
            if not said or disk.is_directory(found[1]):  # else it was moved while we looked
                return said
        return "there is no snapshot"

    return why


def _why_unusable(
    run_dir: Path, seen: Snapshot, place: Path, name: AttemptName, head: ResultHead | None
) -> str:
    plans = seen.info.resolved_execution_plans
    if plans is None:
        return "there is no snapshot"
    try:
        checkpoint = attempts.load_checkpoint(place)
    except (RecordCorrupt, FormatUnknown):
        return "its snapshot cannot be read"
    first_leg = seen.legs.snapshot_from_leg(*name)
    unusable = why_unusable(checkpoint, *name, plans.plan_of(*name), first_leg)
    if unusable or checkpoint is None or checkpoint.evaluation is None:
        return unusable
    if head is not None and checkpoint.scheduler.token != head.token:
        return "its snapshot is of another execution"
    problems = attempts.verify_artifacts(run_dir, checkpoint.evaluation.artifacts)
    return problems[0] if problems else ""
