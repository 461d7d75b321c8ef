"""Opening another writer's run and reading it in the shapes of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from agentcompass.errors import RecordCorrupt
from agentcompass.models.base import JsonObject
from agentcompass.models.metric import MetricContract
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, TaskOutcomes
from agentcompass.models.task import UNCATEGORIZED
from agentcompass.store import disk, layout, records, results
from agentcompass.store.foreign import detail_files
from agentcompass.store.foreign.contract import contract_of_observations, contract_of_report
from agentcompass.store.foreign.detail_files import DetailFile
from agentcompass.store.foreign.head import layout_of, read_head
from agentcompass.store.layout import State
from agentcompass.store.legs import Legs
from agentcompass.store.names import task_dirname
from agentcompass.store.results import ResultHead
from agentcompass.store.scan import RunScan, TaskHeads, TaskScan


@dataclass(frozen=True, slots=True)
class ForeignTask:
    """One task of the denominator, and what the run left of it."""

    task_id: str
    category: str
    state: State | None
    """None: planned, and nothing was left."""
    directory: Path | None = None
    """Of a task with a directory of its own."""
    detail: DetailFile | None = None
    """Of the oldest layout."""


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """Another writer's run. Nothing of it is ever written."""

    run_dir: Path
    schema: str
    """Its marker, "" if it has none."""
    run_id: str
    status: str
    """As it says itself; "" if it never came to an end."""
    started_at: datetime | None
    finished_at: datetime | None
    error: str
    request: Mapping[str, JsonValue]
    benchmark_id: str
    harness_id: str
    model_id: str
    attempts: AttemptPlan
    aggregation: str
    contract: MetricContract
    tasks: tuple[ForeignTask, ...]
    """What it planned, in its order, then what it left besides."""


def open_foreign(run_dir: Path) -> ForeignRun:
    """Read what another writer's run says about itself, and which tasks it has.

    Raises:
        RunNotFound, FormatUnknown: there is no run, or one of a format that we do not know.
        MixedLayouts: its details are of several layouts.
        RecordCorrupt: lists every task record that cannot be read.
    """
    head = read_head(run_dir)
    layout_of(run_dir)
    tasks = _tasks(run_dir, head.plans)
    attempts = head.attempts or _plan_of_details(tasks)
    metrics = _metrics(run_dir)
    return ForeignRun(
        run_dir=run_dir,
        schema=head.schema,
        run_id=head.run_id,
        status=head.status,
        started_at=head.started_at,
        finished_at=head.finished_at,
        error=head.error,
        request=head.request,
        benchmark_id=head.benchmark_id,
        harness_id=head.harness_id,
        model_id=head.model_id,
        attempts=attempts,
        aggregation=str(metrics.get("aggregation") or "micro_weighted"),
        contract=_contract(run_dir, metrics, tasks, attempts.k),
        tasks=tasks,
    )


def foreign_heads(run: ForeignRun) -> Iterator[TaskHeads]:
    """Yield every task of the denominator with its k results.

    Under strategy `pass`, attempts 1..m without a gap whose last one succeeded are complete: the
    others were skipped.

    Raises:
        RecordCorrupt: after the last task, with every result that cannot be relied on.
    """
    problems: list[tuple[Path, str]] = []
    primary = run.contract.primary.metric_id
    for task in run.tasks:
        found = _heads(task, run.attempts.k, problems)
        if run.attempts.strategy == "pass":
            found = _with_skipped(found, task.task_id, primary)
        directory = str(task.directory) if task.directory else None
        yield TaskHeads(task.task_id, task.category, directory, found)
    if problems:
        raise RecordCorrupt(problems)


def foreign_outcomes(run: ForeignRun) -> Iterator[TaskOutcomes]:
    """Yield the same without what metrics do not need."""
    return (task.outcomes for task in foreign_heads(run))


def foreign_scan(run: ForeignRun) -> RunScan:
    """Return what stands of the run; its results are read, because some of them are not ends."""
    found: dict[str, TaskScan] = {}
    for task in run.tasks:
        if task.state is None:
            continue
        problems: list[tuple[Path, str]] = []
        heads = enumerate(_heads(task, run.attempts.k, problems), start=1)
        published = frozenset(number for number, head in heads if head is not None)
        if problems:
            raise RecordCorrupt(problems)
        checkpoints = frozenset(_checkpoints(task)) - published
        found[task_dirname(task.task_id)] = TaskScan(task.state, published, checkpoints)
    return RunScan(found, Legs())


def _heads(
    task: ForeignTask, k: int, problems: list[tuple[Path, str]]
) -> tuple[ResultHead | None, ...]:
    if task.detail is not None:
        return task.detail.heads(k)
    if task.directory is None:
        return (None,) * k
    return tuple(_head(task.directory, number, problems) for number in range(1, k + 1))


def _head(task_dir: Path, number: int, problems: list[tuple[Path, str]]) -> ResultHead | None:
    try:
        head = results.load_outcome(task_dir / layout.attempt_dirname(number) / layout.RESULT)
    except FileNotFoundError:
        return None
    except RecordCorrupt as error:
        problems.extend(error.problems)
        return None
    return head if head.is_terminal else None


def _with_skipped(
    found: tuple[ResultHead | None, ...], task_id: str, primary: str
) -> tuple[ResultHead | None, ...]:
    done = next((n for n, head in enumerate(found) if head is None), len(found))
    last = found[done - 1] if done else None
    if last is None or last.outcome.metrics.get(primary) is not True or any(found[done:]):
        return found
    return (*found[:done], *(_skipped(task_id, n) for n in range(done + 1, len(found) + 1)))


def _skipped(task_id: str, number: int) -> ResultHead:
    """Return what stands for an attempt of which the writer left nothing, because nobody needed it."""
    return ResultHead(
        task_id=task_id,
        attempt=number,
        leg=1,
        token="",
        status="skipped",
        outcome=AttemptOutcome(metrics={}, skipped=True),
        retry_count=0,
        worker="",
        started_at=None,
        finished_at=None,
    )


def _checkpoints(task: ForeignTask) -> Iterator[int]:
    for name in disk.directories(task.directory) if task.directory else ():
        number = layout.attempt_number(name)
        if number and task.directory and disk.is_file(task.directory / name / layout.CHECKPOINT):
            yield number


def _metrics(run_dir: Path) -> JsonObject:
    path = run_dir / layout.METRICS
    try:
        return records.json_object(disk.read(path), path)
    except FileNotFoundError:
        return {}


def _tasks(run_dir: Path, planned: Mapping[str, JsonValue]) -> tuple[ForeignTask, ...]:
    """Return plan united with details; every unreadable task record is listed in one error."""
    left: dict[str, ForeignTask] = {}
    problems: list[tuple[Path, str]] = []
    for state, path in _records_of_tasks(run_dir):
        try:
            task = _task(state, path, left)
        except FileNotFoundError:
            # Of a task that was filed meanwhile, and is listed there, too; or has only just begun.
            if disk.directories(path.parent):
                problems.append((path, "is not there"))
        except RecordCorrupt as error:
            problems.extend(error.problems)
        else:
            left[task.task_id] = task
    if problems:
        raise RecordCorrupt(problems)
    unseen = [name for name in left if name not in planned]
    return tuple(
        left.get(name) or ForeignTask(name, UNCATEGORIZED, None) for name in (*planned, *unseen)
    )


def _records_of_tasks(run_dir: Path) -> Iterator[tuple[State, Path]]:
    """Yield every task record of the three layouts, filed ones last, so that they go before."""
    details = run_dir / layout.DETAILS
    for state in layout.STATES:
        for name in sorted(disk.directories(details / state)):
            yield state, details / state / name / layout.TASK
    for name in sorted(disk.directories(details)):
        if name not in layout.STATES:
            yield "normal", details / name / layout.TASK
    if disk.is_directory(details):
        for name in sorted(disk.names(details)):
            if name.endswith(".json") and disk.is_file(details / name):
                is_error = name.startswith(detail_files.ERROR_PREFIX)
                yield ("error" if is_error else "normal"), details / name


def _task(state: State, path: Path, left: Mapping[str, ForeignTask]) -> ForeignTask:
    if path.name != layout.TASK:
        detail = detail_files.read_detail(path)
        known = left.get(detail.task_id)
        detail = detail_files.better(detail, known.detail if known else None)
        state = "error" if detail.is_error else "normal"
        return ForeignTask(detail.task_id, detail.category, state, detail=detail)
    record = records.json_object(disk.read(path), path)
    task_id, category = record.get("task_id"), record.get("category")
    if not isinstance(task_id, str) or not task_id:
        raise records.corrupt(path, "has no task_id")
    return ForeignTask(
        task_id, str(category) if category else UNCATEGORIZED, state, directory=path.parent
    )


def _plan_of_details(tasks: tuple[ForeignTask, ...]) -> AttemptPlan:
    details = {task.task_id: task.detail for task in tasks if task.detail is not None}
    return detail_files.plan_of(details)


def _contract(
    run_dir: Path, metrics: Mapping[str, JsonValue], tasks: tuple[ForeignTask, ...], k: int
) -> MetricContract:
    if "series" in metrics:
        return contract_of_report(metrics, run_dir / layout.METRICS)
    problems: list[tuple[Path, str]] = []  # told by whoever reads the results for their sake
    every = (head.outcome for task in tasks for head in _heads(task, k, problems) if head)
    return contract_of_observations(every, run_dir)
