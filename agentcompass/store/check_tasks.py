"""The invariants of tasks and attempts; see `store.check` for the list."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptResult
from agentcompass.models.run_info import RunInfo, TaskRecord
from agentcompass.store import atomic, control, disk, layout, records, results, tasks
from agentcompass.store.artifacts import verify_artifacts
from agentcompass.store.attempts import task_record
from agentcompass.store.filing import state_of
from agentcompass.store.layout import State
from agentcompass.store.legs import Legs
from agentcompass.store.names import task_dirname
from agentcompass.store.results import ResultHead
from agentcompass.store.tasks import TaskEntry

_OF_ATTEMPT: Final = {layout.RESULT, layout.CHECKPOINT, layout.ARTIFACTS, layout.RETRIES}
_PASSING: Final = (atomic.TEMP_PREFIX, ".nfs")
"""Temporary files; and what an NFS client calls a replaced file that one of its processes has open."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is not as it has to be."""

    invariant: str
    path: Path
    problem: str


def check_tasks(run_dir: Path, info: RunInfo, *, deep: bool = False) -> Iterator[Violation]:
    """Yield what breaks INV-1, INV-3 to INV-6, INV-10 and INV-11."""
    yield from _check_folders(run_dir)
    known = {task_dirname(entry.task_id): entry for entry in tasks.entries(run_dir)}
    judge = _Judge(run_dir, info.request.execution.attempts, control.legs(run_dir), deep=deep)
    filed: dict[str, State] = {}
    for state in layout.STATES:
        for dirname in disk.directories(layout.state_dir(run_dir, state)):
            path = layout.state_dir(run_dir, state) / dirname
            if dirname in filed and state != "running":
                yield Violation("INV-6", path, f"is also filed as {filed[dirname]}")
            if state != "running":
                filed[dirname] = state
            if dirname not in known:
                yield Violation("INV-3", path, "is the directory of no frozen task")
            elif state != "running" or disk.find_filed(run_dir, dirname) is None:
                yield from judge.task(path, state, known[dirname])


def _check_folders(run_dir: Path) -> Iterator[Violation]:
    """INV-10 above the tasks."""
    details = run_dir / layout.DETAILS
    for name, is_link, is_directory in _entries(details):
        if is_link or name not in layout.STATES or not is_directory:
            yield Violation("INV-10", details / name, "does not belong here")
            continue
        for task, task_is_link, task_is_directory in _entries(details / name):
            is_sane = task_is_directory and layout.is_task_dirname(task)
            if task_is_link or not is_sane:
                yield Violation("INV-10", details / name / task, "does not belong here")


@dataclass(frozen=True)
class _Judge:
    run_dir: Path
    plan: AttemptPlan
    legs: Legs
    deep: bool

    def task(self, path: Path, state: State, entry: TaskEntry) -> Iterator[Violation]:
        """Judge one task that is not a leftover. One that is moved meanwhile is passed over."""
        try:
            yield from self._task_record(path, entry)
            heads: dict[int, ResultHead] = {}
            broken = False
            for name, is_link, is_directory in _entries(path):
                number = layout.attempt_number(name)
                if is_link or not ((number and is_directory) or name == layout.TASK):
                    yield Violation("INV-10", path / name, "does not belong here")
                elif number is not None:
                    found = list(self._attempt(path / name, entry, number, heads))
                    broken = broken or bool(found)
                    yield from found
        except FileNotFoundError:
            return
        if state != "running" and not broken and disk.is_directory(path):
            yield from self._filed(path, state, entry, heads)

    def _task_record(self, path: Path, entry: TaskEntry) -> Iterator[Violation]:
        """INV-3. A crash can leave a directory without the record, but nothing below it then."""
        record_path = path / layout.TASK
        if not disk.is_file(record_path):
            if any(layout.attempt_number(name) for name in disk.names(path)):
                yield Violation("INV-3", record_path, "is not there")
            return
        try:
            record = records.read(record_path, TaskRecord)
        except (RecordCorrupt, FormatUnknown) as error:
            yield Violation("INV-1", record_path, str(error))
            return
        if record != task_record(tasks.read_at(self.run_dir, entry.offset), self.plan):
            yield Violation("INV-3", record_path, "says something else than the frozen task")

    def _attempt(
        self, path: Path, entry: TaskEntry, number: int, heads: dict[int, ResultHead]
    ) -> Iterator[Violation]:
        if number > self.plan.k:
            yield Violation("INV-10", path, f"is beyond the plan of {self.plan.k} attempts")
        for name, is_link, _ in _entries(path):
            if is_link or (name not in _OF_ATTEMPT and layout.mark_of(name) is None):
                yield Violation("INV-10", path / name, "does not belong here")
        token = None
        if disk.is_file(path / layout.RESULT):
            try:
                result = _strict_result(path / layout.RESULT)
            except (RecordCorrupt, FormatUnknown) as error:
                yield Violation("INV-1", path / layout.RESULT, str(error))
                return
            token = result.token
            yield from self._identity(path / layout.RESULT, result, entry, number)
            heads[number] = results.head_of(result)
        yield from self._checkpoint(path / layout.CHECKPOINT, entry, number, token)

    def _identity(
        self, path: Path, result: AttemptResult, entry: TaskEntry, number: int
    ) -> Iterator[Violation]:
        """INV-4."""
        if (result.task_id, result.attempt) != (entry.task_id, number):
            yield Violation("INV-4", path, f"is of {result.task_id!r} attempt {result.attempt}")
        if not result.is_terminal:
            yield Violation("INV-4", path, f"has status {result.status}, which is no end")
        if not 1 <= result.leg <= self.legs.current:
            yield Violation("INV-4", path, f"is of leg {result.leg}, which was never opened")
        if not result.token:
            yield Violation("INV-4", path, "names no execution")

    def _checkpoint(
        self, path: Path, entry: TaskEntry, number: int, token: str | None
    ) -> Iterator[Violation]:
        """INV-1, INV-4, INV-11."""
        if not disk.is_file(path):
            return
        try:
            data = disk.read(path)
            records.strict_json(data, path)
            checkpoint = records.parse_fast(data, Checkpoint, path)
        except (RecordCorrupt, FormatUnknown) as error:
            yield Violation("INV-1", path, str(error))
            return
        snapshot = checkpoint.evaluation
        if snapshot is None:
            return
        if (snapshot.task_id, snapshot.attempt) != (entry.task_id, number):
            yield Violation("INV-4", path, f"is of {snapshot.task_id!r} {snapshot.attempt}")
        if self.deep and token == checkpoint.scheduler.token:
            for problem in verify_artifacts(self.run_dir, snapshot.artifacts):
                yield Violation("INV-11", path, problem)

    def _filed(
        self, path: Path, state: State, entry: TaskEntry, heads: Mapping[int, ResultHead]
    ) -> Iterator[Violation]:
        """INV-5. Attempts that were reopened since are on their way back to `running`."""
        missing = [n for n in range(1, self.plan.k + 1) if n not in heads]
        if missing and all(self._is_quarantined(path, entry.task_id, n) for n in missing):
            return
        if missing:
            yield Violation("INV-5", path, f"is filed without results of attempts {missing}")
            return
        is_reopened = any(
            head.leg < self.legs.valid_from_leg(entry.task_id, number)
            for number, head in heads.items()
        )
        expected = state_of(heads, self.plan, self.run_dir)
        if expected != state and not is_reopened:
            yield Violation("INV-5", path, f"belongs to {expected}")

    def _is_quarantined(self, path: Path, task_id: str, number: int) -> bool:
        """Return whether the result was put aside by a decision, which `resume` carries out."""
        aside = disk.directories(path / layout.attempt_dirname(number) / layout.RETRIES)
        is_reopened = self.legs.valid_from_leg(task_id, number) > 1
        return is_reopened and any(name.startswith(layout.QUARANTINE) for name in aside)


def _strict_result(path: Path) -> AttemptResult:
    """Read a result by every rule, the ones that are too dear for each reader included."""
    data = disk.read(path)
    records.strict_json(data, path)
    results.split(data, path)
    return records.parse_fast(data, AttemptResult, path)


def _entries(path: Path) -> Iterator[tuple[str, bool, bool]]:
    """Yield (name, is a symbolic link, is a directory), but for what nobody reads."""
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.name.startswith(_PASSING):
                yield entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)
