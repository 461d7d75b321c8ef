"""One look at a run directory: what is over, what is left, and in which order it is to be done."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from agentcompass.coordinator.ports import AttemptKey, PendingAttempt
from agentcompass.models.request import ExecutionSettings, RuntimeSettings
from agentcompass.models.run_info import RunInfo
from agentcompass.store import control, scan, sealed, tasks
from agentcompass.store.legs import Legs


class TaskWork(NamedTuple):
    """What is to be done of one task. There may be 100,000 of them: nothing in here that is not needed."""

    offset: int
    """Of its line in the task list."""
    task_id: str
    numbers: Sequence[int]
    """Of the attempts that are to be run, ascending."""


Work: TypeAlias = Sequence[TaskWork]
"""In frozen order."""


@dataclass(frozen=True, slots=True)
class Keys(Collection[AttemptKey]):
    """Attempts to run, in the order of dispatch, each made when it is asked for."""

    work: Work

    def __len__(self) -> int:
        return sum(len(task.numbers) for task in self.work)

    def __iter__(self) -> Iterator[AttemptKey]:
        return (attempt.key for attempt in breadth_first(self.work))

    def __contains__(self, key: object) -> bool:
        return any(key == each for each in self)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run as it stood when its directory was listed."""

    info: RunInfo
    legs: Legs
    found: scan.RunScan
    work: Work

    @property
    def total(self) -> int:
        """Attempts planned."""
        return self.info.attempt_count or 0

    @property
    def left(self) -> int:
        """Attempts to run."""
        return len(self.keys)

    @property
    def done(self) -> int:
        """Attempts that are over: with a terminal result, or cancelled by name."""
        return self.total - self.left

    @property
    def failed_tasks(self) -> int:
        """Tasks that are over and stand in `error` or `fatal`."""
        k = self.info.request.execution.attempts.k
        states = ((task.state, len(task.published)) for task in self.found.tasks.values())
        return sum(state in {"error", "fatal"} and count >= k for state, count in states)

    @property
    def execution(self) -> ExecutionSettings:
        """The execution settings in force: as sealed, or as a later leg changed them."""
        return self.legs.execution or self.info.request.execution

    @property
    def runtime(self) -> RuntimeSettings:
        """The runtime settings in force."""
        return self.legs.runtime or self.info.request.runtime

    @property
    def keys(self) -> Keys:
        """The attempts to run in the order of dispatch."""
        return Keys(self.work)


def look_at(run_dir: Path, info: RunInfo) -> Snapshot:
    """List a sealed run once. `info` is read again by nobody: its sealed part never changes.

    Raises:
        RecordCorrupt: its task list is not the one that was sealed.
    """
    sealed.refuse_edited(run_dir, info)
    legs = control.legs(run_dir)
    found = scan.scan(run_dir, legs)
    work = [
        TaskWork(entry.offset, entry.task_id, numbers)
        for entry, numbers in scan.pending(run_dir, info, found)
    ]
    return Snapshot(info, legs, found, work)


def all_work(run_dir: Path, info: RunInfo) -> Work:
    """Return the work of a run in which nothing can be done yet: just sealed."""
    numbers = range(1, info.request.execution.attempts.k + 1)
    return [TaskWork(entry.offset, entry.task_id, numbers) for entry in tasks.entries(run_dir)]


def breadth_first(work: Work) -> Iterator[PendingAttempt]:
    """Yield attempt 1 of every task, then 2, …; streams, and can be asked for again."""
    deepest = max((task.numbers[-1] for task in work), default=0)
    for attempt in range(1, deepest + 1):
        for offset, task_id, numbers in work:
            at = bisect_left(numbers, attempt)
            if at < len(numbers) and numbers[at] == attempt:
                yield PendingAttempt(offset, attempt, task_id)
