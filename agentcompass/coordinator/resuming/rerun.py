"""Which attempts `resume --rerun` runs again, and why; whole tasks, because k attempts are one unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentcompass.coordinator.deserving import refuse_unknown, why_again
from agentcompass.models.metric import MetricContract
from agentcompass.models.run_info import AttemptRef
from agentcompass.store.results import ResultHead
from agentcompass.store.tasks import TaskEntry


@dataclass(frozen=True, slots=True)
class Rerun:
    """One task to run again."""

    task_id: str
    reason: str
    attempts: tuple[AttemptRef, ...]
    """Those with a result, or cancelled by name; the others are pending anyway."""


def chosen(
    heads: Iterable[tuple[TaskEntry, Mapping[int, ResultHead]]],
    wanted: Sequence[str],
    contract: MetricContract,
    closed: Mapping[tuple[str, int], str],
) -> list[Rerun]:
    """Return the tasks to run again, in frozen order.

    Raises:
        UsageError: a wanted task is not in the run.
    """
    known: list[str] = []
    found: list[Rerun] = []
    for entry, results in heads:
        known.append(entry.task_id)
        outcomes = {number: head.outcome for number, head in results.items()}
        reason = why_again(entry.task_id, outcomes, wanted, contract)
        numbers = {*results, *(number for task, number in closed if task == entry.task_id)}
        if reason and numbers:
            refs = (AttemptRef(task_id=entry.task_id, attempt=n) for n in sorted(numbers))
            found.append(Rerun(entry.task_id, reason, tuple(refs)))
    refuse_unknown(wanted, known, "--rerun")
    return found
