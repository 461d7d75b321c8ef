"""What a summary says beside the numbers, gathered in one pass and in bounded memory.

Tasks with their attempts side by side, those without a value and why, tokens and money, the slowest
and the most expensive attempts. Nothing here decides about a number of the report.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import Field

from agentcompass.metrics.per_task.rows import TaskLine, task_line, task_row
from agentcompass.metrics.per_task.series import observation
from agentcompass.metrics.per_task.tasks import CountedAttempts, TaskReducer, TaskValues
from agentcompass.metrics.usage import Spend, UsageTally, UsageTotals
from agentcompass.models.base import Frozen
from agentcompass.models.result import TaskOutcomes

MAX_LINES: Final = 200
MAX_EXTREMES: Final = 5


class Extreme(Frozen):
    """One attempt that stands out."""

    task_id: str
    attempt: int = Field(ge=1)
    amount: float
    """Seconds or US dollars."""


class Highlights(Frozen):
    """See above; lists are cut, and say how much was left out."""

    tasks: tuple[TaskLine, ...] = ()
    """The first tasks of the run; shown if they are all of them."""
    unscored: tuple[TaskLine, ...] = ()
    """Tasks without a value in the headline, in the order of the run."""
    unscored_omitted: int = Field(default=0, ge=0)
    """How many more of them there are."""
    mixed: tuple[TaskLine, ...] = ()
    """Tasks whose attempts do not agree, in the order of the run."""
    mixed_omitted: int = Field(default=0, ge=0)
    usage: UsageTotals | None = None
    slowest: tuple[Extreme, ...] = ()
    most_expensive: tuple[Extreme, ...] = ()


@dataclass(frozen=True, slots=True)
class Execution:
    """What is known of one attempt beside its outcome."""

    spend: Spend | None = None
    """Of its result; None if it has none, or nothing was executed for it."""
    duration_s: float | None = None
    discarded: Sequence[Spend] = ()
    """Of what this run executed for it and does not count."""
    is_reused: bool = False


@dataclass(slots=True)
class _Some:
    """The first lines of one kind, and how many more there are."""

    limit: int
    lines: list[TaskLine] = field(default_factory=list)
    omitted: int = 0

    @property
    def has_room(self) -> bool:
        return len(self.lines) < self.limit

    def add(self, line: TaskLine | None) -> None:
        if line is not None and self.has_room:
            self.lines.append(line)
        else:
            self.omitted += 1


@dataclass(slots=True)
class _Top:
    """The largest amounts; of equal ones those that came first."""

    kept: list[tuple[float, int, Extreme]] = field(default_factory=list)
    seen: int = 0

    def add(self, task_id: str, attempt: int, amount: float | None) -> None:
        self.seen += 1
        if not amount or (len(self.kept) == MAX_EXTREMES and -amount >= self.kept[-1][0]):
            return
        extreme = Extreme(task_id=task_id, attempt=attempt, amount=amount)
        insort(self.kept, (-amount, self.seen, extreme), key=lambda each: each[:2])
        del self.kept[MAX_EXTREMES:]

    def extremes(self) -> tuple[Extreme, ...]:
        return tuple(extreme for _, _, extreme in self.kept)


class HighlightsTally:
    """Takes in one run, task by task in its order."""

    def __init__(self, reducer: TaskReducer, *, limit: int = MAX_LINES) -> None:
        self._reducer = reducer
        self._headline = reducer.series.index(reducer.headline)
        self._tasks, self._unscored, self._mixed = (_Some(limit) for _ in range(3))
        self._usage = UsageTally()
        self._slowest, self._most_expensive = _Top(), _Top()

    def see(
        self,
        task: TaskOutcomes,
        reduced: tuple[CountedAttempts, TaskValues],
        executions: Sequence[Execution] = (),
        directory: str = "",
    ) -> None:
        """Take in one task.

        Args:
            reduced: what its attempts were reduced to.
            executions: of attempts 1..k, in order.
            directory: of the task, relative to the run; "" if it has none.
        """
        self._list(task, *reduced, directory)
        for number, each in enumerate(executions, start=1):
            self._usage.add(each.spend, each.discarded, is_reused=each.is_reused)
            self._slowest.add(task.task_id, number, each.duration_s)
            cost = each.spend.cost_usd if each.spend is not None else None
            self._most_expensive.add(task.task_id, number, cost)

    def highlights(self) -> Highlights:
        """Return what was gathered."""
        return Highlights(
            tasks=tuple(self._tasks.lines),
            unscored=tuple(self._unscored.lines),
            unscored_omitted=self._unscored.omitted,
            mixed=tuple(self._mixed.lines),
            mixed_omitted=self._mixed.omitted,
            usage=self._usage.totals(),
            slowest=self._slowest.extremes(),
            most_expensive=self._most_expensive.extremes(),
        )

    def _list(
        self, task: TaskOutcomes, counted: CountedAttempts, values: TaskValues, directory: str
    ) -> None:
        """Put the task on the lists that it belongs to; makes a line only if one has room."""
        kinds = [self._tasks]
        if values.values[self._headline] is None:
            kinds.append(self._unscored)
        if len(counted) > 1 and self._is_mixed(counted):
            kinds.append(self._mixed)
        is_kept = any(kind.has_room for kind in kinds)
        line = task_line(task_row(self._reducer, task), directory) if is_kept else None
        for kind in kinds:
            kind.add(line)

    def _is_mixed(self, counted: CountedAttempts) -> bool:
        primary = self._reducer.contract.primary
        return len({observation(primary, outcome) for outcome in counted}) > 1
