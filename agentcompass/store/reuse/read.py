"""One task of a source, read as strictly as it has to be before anything is reserved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from pydantic import JsonValue

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.base import JsonObject
from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.metric import MetricContract
from agentcompass.models.result import AttemptResult
from agentcompass.models.task import TaskSpec
from agentcompass.store import attempts, disk, foreign_results, layout, records, tasks
from agentcompass.store.layout import State
from agentcompass.store.reuse.source import Source

_TASK_FORMATS = ("agentcompass.task.v1", "agentcompass.task.v2", "agentcompass.task.v3")


@dataclass(frozen=True, slots=True)
class AttemptFound:
    """One attempt of a source; results that do not count there are left out."""

    number: int
    directory: Path | None
    """None in the layout that has one file per task."""
    result: AttemptResult | None = None
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class TaskFound:
    """One task of a source."""

    task_id: str
    state: State | None = None
    """None if the source has nothing of it."""
    attempts: Mapping[int, AttemptFound] = field(default_factory=dict)
    malformed: tuple[tuple[Path, str], ...] = ()
    is_changed: bool = False
    """Its content is not what the source had; of other writers only category and truth are known."""
    directory: Path | None = None
    """Of ours: where it stood when it was read."""

    @property
    def is_moved(self) -> bool:
        """Return whether its directory is somewhere else by now: it was filed meanwhile."""
        return self.directory is not None and not disk.is_directory(self.directory)


def read_task(
    source: Source, spec: TaskSpec, contract: MetricContract, *, compares: bool = True
) -> TaskFound:
    """Read what a source has of a task: `task.json`, results and checkpoints, each as a whole.

    A paused run files tasks until its last executing attempt is over, so one of ours is read again
    where it stands by then.

    Args:
        contract: of the run that is to have it: only observations that it declares are taken.
        compares: False leaves `is_changed` open, for whoever has decided already.
    """
    found = _found(source, spec, compares=compares)
    attempts_found = {
        number: replace(each, result=_declared(each.result, contract))
        for number, each in found.attempts.items()
    }
    return replace(found, attempts=attempts_found)


def _found(source: Source, spec: TaskSpec, *, compares: bool) -> TaskFound:
    if spec.task_id in source.details:
        return _of_detail_file(source, spec)
    place = source.places.get(sha256(spec.task_id.encode()).hexdigest())
    if place is None:
        return TaskFound(spec.task_id)
    found = _at(source, spec, place, compares=compares)
    while found.is_moved:
        now = disk.find(source.run_dir, place[1].name)
        if now is None:
            return TaskFound(spec.task_id)
        found = _at(source, spec, (now[0], Path(now[1])), compares=compares)
    return found


def _at(source: Source, spec: TaskSpec, place: tuple[State, Path], *, compares: bool) -> TaskFound:
    state, directory = place
    reader = _Reader(source, spec, directory)
    found = {number: reader.attempt(number) for number in reader.numbers()}
    is_changed = compares and reader.is_changed()
    malformed = tuple(reader.malformed)
    own = directory if source.layout == "ours" else None
    return TaskFound(spec.task_id, state, found, malformed, is_changed, own)


def _declared(result: AttemptResult | None, contract: MetricContract) -> AttemptResult | None:
    """Return the result with the observations that have an id and a type of the contract."""
    if result is None:
        return None
    kinds = {metric.metric_id: metric.kind for metric in contract.metrics}
    kept = {
        name: value
        for name, value in result.metrics.items()
        if name in kinds and isinstance(value, bool) == (kinds[name] == "binary_success")
    }
    return result if kept == result.metrics else result.model_copy(update={"metrics": kept})


class _Reader:
    """Reads one task's directory and collects what is wrong in it."""

    def __init__(self, source: Source, spec: TaskSpec, directory: Path) -> None:
        self.malformed: list[tuple[Path, str]] = []
        self._source = source
        self._spec = spec
        self._directory = directory
        self._record = self._task_record()

    def numbers(self) -> Iterator[int]:
        for name in sorted(disk.directories(self._directory)):
            number = layout.attempt_number(name)
            if number is not None and number <= self._source.attempts.k:
                yield number

    def is_changed(self) -> bool:
        offset = self._source.offsets.get(self._spec.task_id)
        if offset is not None:
            return not tasks.is_at(self._source.run_dir, offset, self._spec)
        return _differs(self._record, self._spec)

    def attempt(self, number: int) -> AttemptFound:
        directory = self._directory / layout.attempt_dirname(number)
        try:
            checkpoint = attempts.load_checkpoint(directory)
        except (RecordCorrupt, FormatUnknown) as error:
            self._note(error, directory / layout.CHECKPOINT)
            checkpoint = None
        result = self._result(directory / layout.RESULT, number)
        own = checkpoint if _is_of(checkpoint, result) else None
        return AttemptFound(number, directory, result, own)

    def _task_record(self) -> JsonObject:
        path = self._directory / layout.TASK
        try:
            record = records.json_object(disk.read(path), path)
        except FileNotFoundError:
            if any(layout.attempt_number(name) for name in disk.directories(self._directory)):
                self.malformed.append((path, "is not there"))
            return {}
        except RecordCorrupt as error:
            self._note(error, path)
            return {}
        problem = self._problem_of(record)
        if problem:
            self.malformed.append((path, problem))
        return record

    def _problem_of(self, record: JsonObject) -> str:
        """Return what makes this the record of something else; "" if nothing does."""
        if record.get("schema_version") not in _TASK_FORMATS:
            return f"schema_version is {record.get('schema_version')!r}, which is not known"
        if record.get("task_id") != self._spec.task_id:
            return (
                f"task_id is {record.get('task_id')!r}, the directory is of {self._spec.task_id!r}"
            )
        named = record.get("attempts")
        if not isinstance(named, dict) or any(
            value != f"attempt-{key}" for key, value in named.items()
        ):
            return "attempts does not map each number n to attempt-n"
        plan = record.get("attempt_plan")
        wanted = self._source.attempts.model_dump()
        is_other = isinstance(plan, dict) and {**wanted, **plan} != wanted
        return f"attempt_plan is not that of its run, {wanted}" if is_other else ""

    def _result(self, path: Path, number: int) -> AttemptResult | None:
        try:
            result = attempts.load_result(path)
        except FileNotFoundError:
            return None
        except (RecordCorrupt, FormatUnknown) as error:
            self._note(error, path)
            return None
        if self._source.layout == "ours":
            if (result.task_id, result.attempt) != (self._spec.task_id, number):
                what = f"is the result of {result.task_id!r}, attempt {result.attempt}"
                self.malformed.append((path, what))
                return None
            first_leg = self._source.legs.valid_from_leg(self._spec.task_id, number)
            if result.leg < first_leg:
                return None
        return result if result.is_terminal else None

    def _note(self, error: RecordCorrupt | FormatUnknown, path: Path) -> None:
        if isinstance(error, RecordCorrupt):
            self.malformed.extend(error.problems)
        else:
            self.malformed.append((path, f"has the unknown format {error.found!r}"))


def _is_of(checkpoint: Checkpoint | None, result: AttemptResult | None) -> bool:
    """Return whether a checkpoint means anything beside this result; only the same execution's does."""
    if checkpoint is None or result is None:
        return checkpoint is not None
    return not result.token or checkpoint.scheduler.token == result.token


def _of_detail_file(source: Source, spec: TaskSpec) -> TaskFound:
    detail = source.details[spec.task_id]
    given = detail.record.get("attempts")
    numbered = given if isinstance(given, dict) else {}
    found: dict[int, AttemptFound] = {}
    malformed: list[tuple[Path, str]] = []
    for number in range(1, source.attempts.k + 1):
        attempt = numbered.get(str(number))
        if not isinstance(attempt, dict):
            continue
        (head,) = detail.heads(source.attempts.k)[number - 1 : number]
        observed: JsonValue = dict(head.outcome.metrics) if head is not None else {}
        try:
            result = foreign_results.adapt({**attempt, "metrics": observed}, detail.path)
        except RecordCorrupt as error:
            malformed.extend(error.problems)
        else:
            found[number] = AttemptFound(number, None, result)
    state: State = "error" if detail.is_error else "normal"
    is_changed = _differs(detail.record, spec)
    return TaskFound(spec.task_id, state, found, tuple(malformed), is_changed)


def _differs(record: Mapping[str, JsonValue], spec: TaskSpec) -> bool:
    """Return whether what another writer records of a task is not what the task says now."""
    said = {"category": spec.category, "ground_truth": spec.ground_truth}
    return any(record.get(name) not in (None, "", value) for name, value in said.items())
