"""A copy of a run that AgentCompass 1.0.1 reads, reports and reuses. The run itself is only read.

What that program has no place for stays behind: tokens and times of attempts, snapshots (their
checksums follow another rule, so there the agent would run again), discarded tries, and series
of reducers that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Final

from agentcompass.errors import RecordCorrupt, RunNotSealed, UsageError
from agentcompass.metrics.per_task.strategies import STRATEGIES, succeeded
from agentcompass.models.base import JsonObject
from agentcompass.models.metric import MetricContract
from agentcompass.models.plan import ResolvedPlans
from agentcompass.models.result import AttemptOutcome, AttemptResult
from agentcompass.models.run_info import RunInfo
from agentcompass.models.task import TaskSpec
from agentcompass.store import (
    atomic,
    attempts,
    control,
    disk,
    layout,
    records,
    report,
    sealed,
    tasks,
)
from agentcompass.store.artifacts import copy_tree
from agentcompass.store.export import shapes
from agentcompass.store.foreign import is_foreign
from agentcompass.store.names import task_dirname
from agentcompass.store.scan import TaskScan, scan

FORMAT: Final = "agentcompass-1.0"


def write_copy(run_dir: Path, target: Path) -> int:
    """Write the copy to `target`, whole or not at all; return the number of tasks in it.

    Raises:
        UsageError: `target` is there already, or the run is not one of ours.
        RunNotFound, RunNotSealed: there is nothing to copy.
        RecordCorrupt: results cannot be read; all of them are listed, and nothing is written.
    """
    if is_foreign(run_dir):
        raise UsageError(f"{run_dir} is a run of that program already", hint="copy the folder")
    info = sealed.load_frozen(run_dir)
    if target.exists():
        raise _taken(target)
    if not target.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {target.absolute().parent}", where="--output")
    staging = target.absolute().parent / f"{atomic.TEMP_PREFIX}export-{token_hex(8)}"
    try:
        count = _Copy(run_dir, info, staging).write()
        if not atomic.move(staging, target):
            raise _taken(target)
    finally:
        if disk.is_directory(staging):
            atomic.remove_tree(staging)
    return count


class _Copy:
    """One copy on its way."""

    def __init__(self, run_dir: Path, info: RunInfo, target: Path) -> None:
        if info.metric_contract is None or info.resolved_execution_plans is None:
            raise RunNotSealed(run_dir)
        self._run_dir = run_dir
        self._info = info
        self._contract: MetricContract = info.metric_contract
        self._plans: ResolvedPlans = info.resolved_execution_plans
        self._plan = info.request.execution.attempts
        self._target = target
        self._legs = control.legs(run_dir)
        self._malformed: list[tuple[Path, str]] = []

    def write(self) -> int:
        for folder in (self._target, self._target / layout.DETAILS):
            atomic.make_directory(folder)
        for state in layout.STATES:
            atomic.make_directory(layout.state_dir(self._target, state))
        found, count = scan(self._run_dir, self._legs), 0
        for spec in self._specs():
            task = found.get(spec.task_id)
            if task is not None and task.published:
                count += 1
                self._task(spec, task)
        if self._malformed:
            raise RecordCorrupt(self._malformed)
        self._write(layout.RUN_INFO, shapes.run_info_of(self._info, self._plans, self._specs()))
        self._write(layout.PARAMS, shapes.params_of(self._info.request))
        self._report()
        return count

    def _specs(self) -> Iterator[TaskSpec]:
        for entry in tasks.entries(self._run_dir):
            yield tasks.read_at(self._run_dir, entry.offset)

    def _task(self, spec: TaskSpec, task: TaskScan) -> None:
        results = dict(self._results(spec, task))
        dirname = task_dirname(spec.task_id)
        directory = layout.state_dir(self._target, task.state) / dirname
        atomic.make_directory(directory)
        for number, (path, result) in results.items():
            own = directory / layout.attempt_dirname(number)
            atomic.make_directory(own)
            self._artifacts(path.parent, result, own)
            is_success = succeeded(self._contract, _outcome(result)) and self._is_sequential
            checkpoint = shapes.checkpoint_of(result, is_success=is_success)
            _put(own / layout.RESULT, shapes.result_of(result))
            _put(own / layout.CHECKPOINT, checkpoint)
        _put(directory / layout.TASK, shapes.task_of(spec, self._plan, results))

    @property
    def _is_sequential(self) -> bool:
        return STRATEGIES.get(self._plan.strategy).is_sequential

    def _results(
        self, spec: TaskSpec, task: TaskScan
    ) -> Iterator[tuple[int, tuple[Path, AttemptResult]]]:
        """Yield the results that count; that program leaves no record of what it did not need."""
        for number in sorted(task.published):
            path = attempts.result_of(self._run_dir, spec.task_id, number)
            try:
                result = attempts.load_result(path) if path is not None else None
            except RecordCorrupt as error:
                self._malformed.extend(error.problems)
                continue
            if path is not None and result is not None and result.status != "skipped":
                yield number, (path, result)

    def _artifacts(self, attempt_dir: Path, result: AttemptResult, own: Path) -> None:
        source = attempt_dir / layout.ARTIFACTS / result.token
        if disk.is_directory(source):
            atomic.make_directory(own / layout.ARTIFACTS)
            copy_tree(source, own / layout.ARTIFACTS / result.token)

    def _report(self) -> None:
        made = report.load_report(self._run_dir, report.expected_of(self._info))
        fields = shapes.report_of(made) if made is not None else None
        if fields is None:
            return
        self._write(layout.METRICS, fields)
        summary = disk.read(self._run_dir / layout.SUMMARY)  # always written with the metrics
        atomic.write_new(self._target / layout.SUMMARY, (summary,))

    def _write(self, name: str, fields: JsonObject) -> None:
        _put(self._target / name, fields)


def _taken(target: Path) -> UsageError:
    return UsageError(f"{target} exists already", where="--output", hint="name a new folder")


def _put(path: Path, fields: JsonObject) -> None:
    atomic.write_new(path, (records.pretty(fields),))


def _outcome(result: AttemptResult) -> AttemptOutcome:
    return AttemptOutcome(metrics=result.metrics, issues=result.issues)
