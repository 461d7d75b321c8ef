"""`tasks.jsonl`: the frozen selection, one task per line; the denominator of every count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import orjson
from pydantic import ValidationError

from agentcompass.errors import RunNotSealed, StoreError
from agentcompass.models.task import UNCATEGORIZED, TaskSpec
from agentcompass.store import atomic, layout, records, sealed

_FIRST_FIELDS: Final = ("task_id", "category")
_END_OF_HEAD: Final = b',"question":'
"""Ends the two fields that a listing needs. It occurs in no string: there a quote is escaped."""


@dataclass(frozen=True, slots=True)
class FrozenTasks:
    """What was frozen."""

    count: int
    sha256: str
    """Of the whole file; goes into `run_info.json`."""


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """One line without its content."""

    index: int
    """From 0, in frozen order."""
    offset: int
    """Where the line begins, in bytes; what a message carries."""
    task_id: str
    category: str
    """As the report groups by it; `__uncategorized__` if the task has none."""


class TasksFrozen(StoreError):
    """The run is sealed, so its tasks stay what they are."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is sealed; its tasks cannot be frozen again"


def freeze(run_dir: Path, tasks: Iterable[TaskSpec]) -> FrozenTasks:
    """Write all tasks, replacing whatever an interrupted planning left. Ids are checked elsewhere.

    Raises:
        TasksFrozen: the run is sealed.
        TypeError: a task holds what JSON cannot: a lone surrogate, an integer of over 64 bits.
    """
    if sealed.load(run_dir).sealed_at is not None:
        raise TasksFrozen(run_dir)
    digest, count = sha256(), 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        for task in tasks:
            line = _line(task)
            digest.update(line)
            count += 1
            yield line

    atomic.replace_stream(run_dir / layout.TASKS, lines())
    return FrozenTasks(count, digest.hexdigest())


def read_at(run_dir: Path, offset: int) -> TaskSpec:
    """Return the task whose line begins at `offset`.

    Raises:
        RunNotFound, RunNotSealed: there is no frozen task list yet.
        RecordCorrupt: no line begins there, or it is not a task.
    """
    return _task_of(_line_at(run_dir, offset), run_dir, offset)


def is_at(run_dir: Path, offset: int, task: TaskSpec) -> bool:
    """Return whether the line at `offset` says what this task says; raises as `read_at`."""
    line = _line_at(run_dir, offset)
    if line == _line(task):  # by the same version of us, which spares to parse it
        return True
    return digest_of(_task_of(line, run_dir, offset)) == digest_of(task)


def entries(run_dir: Path) -> Iterator[TaskEntry]:
    """Yield all tasks in frozen order, reading one line at a time and of it only what is needed.

    Raises:
        RunNotFound, RunNotSealed: there is no frozen task list yet.
        RecordCorrupt: the list of a sealed run is gone, a line is not a task's, or the last one is not whole.
    """
    path = run_dir / layout.TASKS
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise _why_absent(run_dir) from error
    with file:
        yield from _entries(file, path)


def digest_of(task: TaskSpec) -> str:
    """Return the SHA-256 of what a task says: canonical JSON without the fields left at defaults.

    The same wherever and whenever the task is frozen, whatever the order of its fields, and also
    by a later version that knows more fields.
    """
    said = task.model_dump(exclude_defaults=True)
    return sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


def digests(run_dir: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (task id, SHA-256 of all that is frozen of it), in frozen order; raises as `entries`.

    Equal digests mean equal tasks: question, ground truth, category and all.
    """
    with (run_dir / layout.TASKS).open("rb") as lines:
        for entry, line in zip(entries(run_dir), lines, strict=True):
            yield entry.task_id, sha256(line).digest()


def _line_at(run_dir: Path, offset: int) -> bytes:
    path = run_dir / layout.TASKS
    try:
        with path.open("rb") as file:
            file.seek(max(offset - 1, 0))
            is_start = offset == 0 or file.read(1) == b"\n"
            line = file.readline() if is_start else b""
    except FileNotFoundError as error:
        raise _why_absent(run_dir) from error
    if not line.endswith(b"\n"):
        raise records.corrupt(path, f"no whole line begins at byte {offset}")
    return line


def _task_of(line: bytes, run_dir: Path, offset: int) -> TaskSpec:
    path = run_dir / layout.TASKS
    records.fast_json(line, path)
    try:
        return TaskSpec.model_validate_json(line)
    except ValidationError as error:
        raise records.corrupt(path, f"byte {offset}: {records.brief(error)}") from error


def _why_absent(run_dir: Path) -> StoreError:
    if sealed.load(run_dir).sealed_at is None:
        return RunNotSealed(run_dir)
    return records.corrupt(run_dir / layout.TASKS, "is not there, and the run is sealed")


def _entries(file: BinaryIO, path: Path) -> Iterator[TaskEntry]:
    offset = 0
    loads, same = orjson.loads, dict[str, str]()
    for index, line in enumerate(file):
        end = line.find(_END_OF_HEAD)
        try:
            head = loads(line if end < 0 else line[:end] + b"}")
            task_id, category = head["task_id"], head["category"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise records.corrupt(path, f"line {index + 1} is not a task: {error}") from error
        category = category or UNCATEGORIZED
        is_typed = isinstance(task_id, str) and isinstance(category, str)
        if line[-1] != ord("\n") or not is_typed:
            raise records.corrupt(path, f"line {index + 1} is not a whole task")
        yield TaskEntry(index, offset, task_id, same.setdefault(category, category))
        offset += len(line)


def _line(task: TaskSpec) -> bytes:
    fields = task.model_dump()
    first = {name: fields.pop(name) for name in _FIRST_FIELDS}
    return records.compact({**first, **fields})
