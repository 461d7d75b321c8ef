"""The results of a run, one task at a time in frozen order, without trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentcompass.coordinator.snapshot import Snapshot
from agentcompass.errors import RecordCorrupt
from agentcompass.models.result import TaskOutcomes
from agentcompass.store import attempts, layout, tasks
from agentcompass.store.names import task_dirname
from agentcompass.store.results import ResultHead
from agentcompass.store.tasks import TaskEntry


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record of an attempt that must be read and cannot."""

    entry: TaskEntry
    attempt: int
    path: Path
    reason: str


@dataclass(slots=True)
class Heads:
    """Reads the results that a snapshot saw; iterate once."""

    run_dir: Path
    seen: Snapshot
    malformed: list[Malformed] = field(default_factory=list)
    """Filled while iterating; such an attempt is left out of what is yielded."""
    with_checkpoints: bool = False
    """Also look whether the checkpoints of attempts without a result can be read."""

    def __iter__(self) -> Iterator[tuple[TaskEntry, Mapping[int, ResultHead]]]:
        for entry in tasks.entries(self.run_dir):
            yield entry, self._of(entry)

    def _of(self, entry: TaskEntry) -> dict[int, ResultHead]:
        task = self.seen.found.get(entry.task_id)
        if task is None:
            return {}
        directory = self.run_dir / layout.DETAILS / task.state / task_dirname(entry.task_id)
        heads: dict[int, ResultHead] = {}
        for number in sorted(task.published):
            head = self._read(entry, number, directory)
            if head is not None:
                heads[number] = head
        for number in sorted(task.checkpoints) if self.with_checkpoints else ():
            self._read_checkpoint(entry, number, directory / layout.attempt_dirname(number))
        return heads

    def _read(self, entry: TaskEntry, number: int, directory: Path) -> ResultHead | None:
        path = directory / layout.attempt_dirname(number) / layout.RESULT
        try:
            head = self._load(entry, number, path)
        except RecordCorrupt as error:
            self._note(entry, number, error)
            return None
        if head is not None and (head.task_id, head.attempt) != (entry.task_id, number):
            reason = f"is the result of {head.task_id!r}, attempt {head.attempt}"
            self.malformed.append(Malformed(entry, number, path, reason))
            return None
        return head

    def _read_checkpoint(self, entry: TaskEntry, number: int, directory: Path) -> None:
        try:
            attempts.load_checkpoint(directory)
        except RecordCorrupt as error:
            self._note(entry, number, error)

    def _note(self, entry: TaskEntry, number: int, error: RecordCorrupt) -> None:
        self.malformed += [
            Malformed(entry, number, path, reason) for path, reason in error.problems
        ]

    def _load(self, entry: TaskEntry, number: int, path: Path) -> ResultHead | None:
        try:
            return attempts.load_outcome(path)
        except FileNotFoundError:  # its task was moved meanwhile
            return attempts.find_head(self.run_dir, entry.task_id, number)


def outcomes_of(entry: TaskEntry, heads: Mapping[int, ResultHead], k: int) -> TaskOutcomes:
    """Return what the metrics need of one task; None where there is no result."""
    found = (heads.get(number) for number in range(1, k + 1))
    return TaskOutcomes(
        task_id=entry.task_id,
        category=entry.category,
        attempts=tuple(head.outcome if head else None for head in found),
    )
