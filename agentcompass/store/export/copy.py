"""A copy of a run that AgentCompass 1.0.1 reads, reports and reuses. The run itself is only read.

What that program has no place for stays behind: tokens and times of attempts, snapshots (their
checksums follow another rule, so there the agent would run again), discarded tries, and series
of reducers that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final

from agentcompass.errors import RecordCorrupt, RunNotSealed, UsageError
from agentcompass.metrics.per_task.strategies import STRATEGIES, succeeded
from agentcompass.models.base import JsonObject
from agentcompass.models.metric import MetricContract, MetricReport
from agentcompass.models.plan import ResolvedPlans
from agentcompass.models.result import AttemptOutcome, AttemptResult
from agentcompass.models.run_info import RunInfo
from agentcompass.models.task import TaskSpec
from agentcompass.store import (
    atomic,
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
from agentcompass.store.report import Written
from agentcompass.store.results import load_result
from agentcompass.store.scan import RunScan, TaskScan, results_digest
from agentcompass.store.views import until_it_stays

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
        copied: dict[str, TaskScan] = {}
        for spec in self._specs():
            task = until_it_stays(self._run_dir, partial(self._task, spec))
            if task is not None:
                copied[task_dirname(spec.task_id)] = task
        if self._malformed:
            raise RecordCorrupt(self._malformed)
        written = self._written(RunScan(copied, self._legs))
        info = self._info_beside(written)
        self._write(layout.RUN_INFO, shapes.run_info_of(info, self._plans, self._specs()))
        self._write(layout.PARAMS, shapes.params_of(info.request))
        if written is not None:
            self._report(written.report)
        return len(copied)

    def _specs(self) -> Iterator[TaskSpec]:
        for entry in tasks.entries(self._run_dir):
            yield tasks.read_at(self._run_dir, entry.offset)

    def _task(self, spec: TaskSpec) -> TaskScan | None:
        """Copy one task from where it stands; return which results that are, None without any.

        Raises:
            FileNotFoundError: it was moved meanwhile, and nothing of it is in the copy.
        """
        found = disk.find(self._run_dir, task_dirname(spec.task_id))
        if found is None:
            return None
        state, source = found
        target = layout.task_dir(self._target, state, spec.task_id)
        try:
            numbers = self._copy_task(spec, Path(source), target)
        except FileNotFoundError:
            if disk.is_directory(target):
                atomic.remove_tree(target)
            raise
        return TaskScan(state, numbers, frozenset()) if numbers else None

    def _copy_task(self, spec: TaskSpec, source: Path, target: Path) -> frozenset[int]:
        malformed: list[tuple[Path, str]] = []
        counting = dict(self._results(spec, source, malformed))
        # That program leaves no record of what it did not need.
        results = {n: each for n, each in counting.items() if each.status != "skipped"}
        if counting:
            atomic.make_directory(target)
        for number, result in results.items():
            own = target / layout.attempt_dirname(number)
            atomic.make_directory(own)
            self._artifacts(source / own.name, result, own)
            is_success = succeeded(self._contract, _outcome(result)) and self._is_sequential
            checkpoint = shapes.checkpoint_of(result, is_success=is_success)
            _put(own / layout.RESULT, shapes.result_of(result))
            _put(own / layout.CHECKPOINT, checkpoint)
        if counting:
            _put(target / layout.TASK, shapes.task_of(spec, self._plan, results))
        if not disk.is_directory(source):  # then what looked absent may only have been moved
            raise FileNotFoundError(source)
        self._malformed += malformed
        return frozenset(counting)

    @property
    def _is_sequential(self) -> bool:
        return STRATEGIES.get(self._plan.strategy).is_sequential

    def _results(
        self, spec: TaskSpec, source: Path, malformed: list[tuple[Path, str]]
    ) -> Iterator[tuple[int, AttemptResult]]:
        """Yield the results that count; what cannot be read is added to `malformed`."""
        for number in range(1, self._plan.k + 1):
            try:
                result = load_result(source / layout.attempt_dirname(number) / layout.RESULT)
            except FileNotFoundError:
                continue
            except RecordCorrupt as error:
                malformed.extend(error.problems)
                continue
            first_leg = self._legs.valid_from_leg(spec.task_id, number)
            if result.is_terminal and result.leg >= first_leg:
                yield number, result

    def _artifacts(self, attempt_dir: Path, result: AttemptResult, own: Path) -> None:
        source = attempt_dir / layout.ARTIFACTS / result.token
        if disk.is_directory(source):
            atomic.make_directory(own / layout.ARTIFACTS)
            copy_tree(source, own / layout.ARTIFACTS / result.token)

    def _written(self, copied: RunScan) -> Written | None:
        """Return the run's report if it is on the very results that were copied."""
        written = report.load_written(self._run_dir, report.expected_of(self._info))
        if written is None or written.covered is None:
            return None
        is_on_them = written.covered.results_sha256 == results_digest(copied)
        return written if is_on_them else None

    def _info_beside(self, written: Written | None) -> RunInfo:
        """Return what the run says of itself by now; it is over only if its report is in the copy."""
        info = sealed.load_frozen(self._run_dir)
        if written is not None:
            return info.model_copy(update={"metric_artifacts": written.covered})
        update: dict[str, object] = {"metric_artifacts": None}
        if info.status in {"completed", "failed"}:
            update |= {"status": "running", "finished_at": None, "error": ""}
        return info.model_copy(update=update)

    def _report(self, made: MetricReport) -> None:
        fields = shapes.report_of(made)
        if fields is None:
            return
        self._write(layout.METRICS, fields)
        with suppress(FileNotFoundError):
            summary = disk.read(self._run_dir / layout.SUMMARY)
            atomic.write_new(self._target / layout.SUMMARY, (summary,))

    def _write(self, name: str, fields: JsonObject) -> None:
        _put(self._target / name, fields)


def _taken(target: Path) -> UsageError:
    return UsageError(f"{target} exists already", where="--output", hint="name a new folder")


def _put(path: Path, fields: JsonObject) -> None:
    atomic.write_new(path, (records.pretty(fields),))


def _outcome(result: AttemptResult) -> AttemptOutcome:
    return AttemptOutcome(metrics=result.metrics, issues=result.issues)
