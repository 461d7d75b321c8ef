"""One task: its state and its value in each series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentcompass.metrics.per_task.series import SeriesPlan, observation
from agentcompass.metrics.per_task.strategies import STRATEGIES, planned_series
from agentcompass.models.issue import Issue
from agentcompass.models.metric import MetricContract
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, TaskOutcomes

CountedAttempts = tuple[AttemptOutcome | None, ...]


@dataclass(frozen=True, slots=True)
class TaskValues:
    """What one task gives to each series, in the order of the series."""

    is_invalidated: bool
    """Any attempt that counts has a FATAL: no series may use this task."""
    has_error: bool
    """Any attempt that counts has an ERROR or FATAL; overlaps with every state."""
    values: tuple[float | None, ...]
    """None = unavailable, or invalidated; never zero for something that is missing."""


class TaskReducer:
    """The rules of one run, resolved once: contract and attempt plan -> values of tasks."""

    def __init__(self, contract: MetricContract, attempts: AttemptPlan) -> None:
        self.contract = contract
        self.k = attempts.k
        self.strategy = attempts.strategy
        self.series: tuple[SeriesPlan, ...] = planned_series(contract, attempts)
        self._needed = STRATEGIES.get(attempts.strategy).needed

    @property
    def headline(self) -> SeriesPlan:
        """The first series of the primary metric."""
        return next(plan for plan in self.series if plan.spec.primary)

    def counted(self, task: TaskOutcomes) -> CountedAttempts:
        """Return the attempts that count: under `pass` those up to the first success.

        Missing attempts at the end of a short tuple (another writer's) count as missing.

        Raises:
            ValueError: the task has more attempts than the plan.
        """
        if len(task.attempts) > self.k:
            raise ValueError(
                f"task {task.task_id!r} has {len(task.attempts)} attempts, the plan has {self.k}"
            )
        attempts = (*task.attempts, *([None] * (self.k - len(task.attempts))))
        return attempts[: self._needed(self.contract, attempts)]

    def reduce(self, counted: CountedAttempts) -> TaskValues:
        """Return the state and the values of one task from its attempts that count."""
        severities = {issue.severity for _, issue in issues_of(counted)}
        if "fatal" in severities:
            return TaskValues(
                is_invalidated=True, has_error=True, values=(None,) * len(self.series)
            )
        observed = {
            spec.metric_id: [observation(spec, o) for o in counted]
            for spec in self.contract.metrics
        }
        return TaskValues(
            is_invalidated=False,
            has_error="error" in severities,
            values=tuple(
                plan.reducer.reduce(observed[plan.spec.metric_id], plan.k) for plan in self.series
            ),
        )


def issues_of(counted: CountedAttempts) -> Iterator[tuple[int, Issue]]:
    """Yield (attempt number, issue) of the attempts that count."""
    for number, outcome in enumerate(counted, start=1):
        if outcome is not None:
            for issue in outcome.issues:
                yield number, issue
