"""What stands in a run directory: one listing of all, and the outcomes in frozen order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

from agentcompass.errors import RecordCorrupt
from agentcompass.models.base import Timestamp
from agentcompass.models.result import AttemptResult, TaskOutcomes
from agentcompass.models.run_info import RunInfo
from agentcompass.store import control, disk, layout, results, tasks
from agentcompass.store.layout import State
from agentcompass.store.legs import Legs
from agentcompass.store.names import task_dirname
from agentcompass.store.tasks import TaskEntry

_T = TypeVar("_T")

_ORDER: Final[tuple[State, ...]] = ("running", "normal", "error", "fatal", "running")
"""Filing moves tasks from the first to the others, reopening back: listed so, none is missed."""
_LOOKS: Final = 4
"""A task moves at most twice in a leg."""
_NONE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class TaskScan:
    """One task's directory."""

    state: State
    published: frozenset[int]
    """Attempts with a result that counts."""
    checkpoints: frozenset[int]
    """Attempts without one that have a checkpoint."""


@dataclass(frozen=True, slots=True)
class RunScan:
    """One listing; already old when it is returned."""

    tasks: Mapping[str, TaskScan]
    """By directory name."""
    legs: Legs

    @property
    def published(self) -> int:
        """Number of attempts with a result that counts."""
        return sum(len(task.published) for task in self.tasks.values())

    def get(self, task_id: str) -> TaskScan | None:
        """Return what stands of a task, None if it has no directory."""
        return self.tasks.get(task_dirname(task_id))

    def is_published(self, task_id: str, attempt: int) -> bool:
        """Return whether the attempt had a result that counts."""
        task = self.get(task_id)
        return task is not None and attempt in task.published

    def has_checkpoint(self, task_id: str, attempt: int) -> bool:
        """Return whether an attempt without a result had a checkpoint."""
        task = self.get(task_id)
        return task is not None and attempt in task.checkpoints


@dataclass(slots=True)
class Coverage:
    """Which results a report is made of; `heads` fills it while they are read."""

    results_sha256: str
    """`results_digest` of the listing that came before the reading."""
    generated_at: Timestamp
    """The latest end of a result read so far; the seal if none is read."""
    results: int = 0
    missing: int = field(default=0)
    """Planned attempts without a terminal result, those cancelled by name included."""


@dataclass(frozen=True, slots=True)
class TaskHeads:
    """One task of the denominator with the results of its attempts 1..k, without trajectories."""

    task_id: str
    category: str
    directory: str | None
    """Where it stood when it was read; None if it has none."""
    heads: tuple[results.ResultHead | None, ...]
    """None = no terminal result that counts."""

    @property
    def outcomes(self) -> TaskOutcomes:
        """What the metrics need of it."""
        return TaskOutcomes(
            task_id=self.task_id,
            category=self.category,
            attempts=tuple(head.outcome if head else None for head in self.heads),
        )


def scan(run_dir: Path, legs: Legs | None = None) -> RunScan:
    """List every task and attempt once; a probe per attempt, no file is opened.

    Only results of attempts that were reopened are read, for their leg.

    Raises:
        RunNotFound: the run has no `control/`.
    """
    legs = legs or control.legs(run_dir)
    states: dict[str, State] = {}
    for state in _ORDER:
        for dirname in disk.directories(layout.state_dir(run_dir, state)):
            if state != "running" or dirname not in states:
                states[dirname] = state
    first_legs = {(task_dirname(task), n): leg for (task, n), leg in legs.reopened.items()}
    eye = _Eye(run_dir, first_legs, legs.valid_from)
    same: dict[TaskScan, TaskScan] = {}
    found: dict[str, TaskScan] = {}
    for dirname, state in states.items():
        task = eye.look(dirname, state)
        if task is not None:
            found[dirname] = same.setdefault(task, task)  # most tasks of a run look alike
    return RunScan(found, legs)


def heads(
    run_dir: Path, info: RunInfo, legs: Legs | None = None, *, coverage: Coverage | None = None
) -> Iterator[TaskHeads]:
    """Yield every task of the frozen list with its k results, reading no trajectory.

    Memory does not grow with the run. A task that is moved meanwhile is looked up again.

    Raises:
        RecordCorrupt: after the last task, with every result that cannot be relied on: they were
            left out, so nothing that was made of the others may be used.
    """
    legs = legs or control.legs(run_dir)
    numbers = range(1, info.request.execution.attempts.k + 1)
    problems: list[tuple[Path, str]] = []
    for entry in tasks.entries(run_dir):
        place = _Place(run_dir, entry.task_id)
        found = tuple(_head(place, entry.task_id, n, legs, problems) for n in numbers)
        if coverage is not None:
            _cover(coverage, found)
        yield TaskHeads(entry.task_id, entry.category, place.directory, found)
    if problems:
        raise RecordCorrupt(problems)


def outcomes(
    run_dir: Path, info: RunInfo, legs: Legs | None = None, *, coverage: Coverage | None = None
) -> Iterator[TaskOutcomes]:
    """Yield the same without what metrics do not need."""
    return (task.outcomes for task in heads(run_dir, info, legs, coverage=coverage))


def details(run_dir: Path, info: RunInfo, legs: Legs | None = None) -> Iterator[AttemptResult]:
    """Yield every result that counts, in frozen order, without trajectories (`aggregate_metrics`)."""
    legs = legs or control.legs(run_dir)
    for entry in tasks.entries(run_dir):
        place = _Place(run_dir, entry.task_id)
        for number in range(1, info.request.execution.attempts.k + 1):
            result = place.load(number, results.load_without_trajectory)
            first_leg = legs.valid_from_leg(entry.task_id, number)
            if result is not None and result.is_terminal and result.leg >= first_leg:
                yield result


def pending(
    run_dir: Path, info: RunInfo, found: RunScan
) -> Iterator[tuple[TaskEntry, tuple[int, ...]]]:
    """Yield every task with attempts to run: planned, not published, not cancelled by name."""
    legs = found.legs
    planned = range(1, info.request.execution.attempts.k + 1)
    same: dict[tuple[int, ...], tuple[int, ...]] = {}
    for entry in tasks.entries(run_dir):
        task = found.get(entry.task_id)
        done = task.published if task else _NONE
        left = tuple(n for n in planned if n not in done and not legs.is_closed(entry.task_id, n))
        if left:
            yield entry, same.setdefault(left, left)


def results_digest(found: RunScan) -> str:
    """Return a digest of which results there are, the same in every order of events.

    An attempt's result never changes while its first counting leg stays the same, so names and
    legs say it all. Sizes would not: filing rewrites paths. Attempts cancelled by name are part
    of it, because a report that misses them is complete only since then.
    """
    legs = found.legs
    first_legs = {(task_dirname(task), n): leg for (task, n), leg in legs.reopened.items()}
    total = sha256()
    for dirname in sorted(found.tasks):
        task = found.tasks[dirname]
        for number in sorted(task.published):
            leg = first_legs.get((dirname, number), legs.valid_from)
            total.update(f"{dirname} {number} {leg}\n".encode())
    for task_id, number in sorted(legs.closed):
        total.update(f"closed {task_dirname(task_id)} {number}\n".encode())
    return total.hexdigest()


@dataclass(frozen=True, slots=True)
class _Eye:
    """What a scan needs to know to look at one task."""

    run_dir: Path
    first_legs: Mapping[tuple[str, int], int]
    default_leg: int

    def look(self, dirname: str, state: State) -> TaskScan | None:
        """Return what stands of a task, wherever it is moved meanwhile; None if it is gone."""
        path = layout.task_path(self.run_dir, state, dirname)
        for _ in range(_LOOKS):
            try:
                task = self._probe(path, dirname, state)
            except FileNotFoundError:
                task = None
            # A move between listing and probing makes all that was moved look absent.
            if task is not None and disk.is_directory(path):
                return task
            moved = disk.find(self.run_dir, dirname)
            if moved is None:
                return None
            state, path = moved
        return None

    def _probe(self, path: str, dirname: str, state: State) -> TaskScan:
        published, checkpoints = [], []
        for name in disk.directories(path):
            number = layout.attempt_number(name)
            if number is None:
                continue
            first_leg = self.first_legs.get((dirname, number), self.default_leg)
            if _counts(f"{path}/{name}/{layout.RESULT}", first_leg):
                published.append(number)
            elif disk.is_file(f"{path}/{name}/{layout.CHECKPOINT}"):
                checkpoints.append(number)
        return TaskScan(state, frozenset(published), frozenset(checkpoints))


def _counts(path: str, first_leg: int) -> bool:
    if not disk.is_file(path):
        return False
    return first_leg <= 1 or results.load_outcome(path).leg >= first_leg


class _Place:
    """Where a task stands, looked up again when it is not there any more."""

    def __init__(self, run_dir: Path, task_id: str) -> None:
        self._run_dir = run_dir
        self._dirname = task_dirname(task_id)
        # Most tasks of a run that is reduced stand here, and a filed copy goes before any other:
        # asking for the file itself is the cheapest look.
        normal = layout.task_path(run_dir, "normal", self._dirname)
        self._found: tuple[State, str] | None = ("normal", normal)
        self._is_guess = True

    @property
    def directory(self) -> str | None:
        """Where the task was last found."""
        return self._found[1] if self._found is not None else None

    def path(self, number: int) -> Path:
        """Return where an attempt's result stands, or would."""
        return Path(self.directory or "", layout.attempt_dirname(number), layout.RESULT)

    def load(self, number: int, load: Callable[[str], _T]) -> _T | None:
        """Return an attempt's result as `load` reads it; None if it has none."""
        while self._found is not None:
            path = f"{self._found[1]}/{layout.attempt_dirname(number)}/{layout.RESULT}"
            try:
                return load(path)
            except FileNotFoundError:
                again = disk.find(self._run_dir, self._dirname)
                # What was only guessed may have come true since: then nothing was looked at yet.
                if again == self._found and not self._is_guess:
                    return None
                self._found, self._is_guess = again, False
        return None


def _head(
    place: _Place, task_id: str, number: int, legs: Legs, problems: list[tuple[Path, str]]
) -> results.ResultHead | None:
    """Return an attempt's result if it counts; what cannot be relied on is added to `problems`."""
    try:
        head = place.load(number, results.load_outcome)
    except RecordCorrupt as error:
        problems.extend(error.problems)
        return None
    if head is None or not head.is_terminal or head.leg < legs.valid_from_leg(task_id, number):
        return None
    if (head.task_id, head.attempt) != (task_id, number):
        other = f"is the result of {head.task_id!r}, attempt {head.attempt}"
        problems.append((place.path(number), other))
        return None
    return head


def _cover(coverage: Coverage, found: Iterable[results.ResultHead | None]) -> None:
    for head in found:
        if head is None:
            coverage.missing += 1
            continue
        coverage.results += 1
        if head.finished_at is not None and head.finished_at > coverage.generated_at:
            coverage.generated_at = head.finished_at
