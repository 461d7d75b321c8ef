"""Does a run directory keep its invariants? What `agentcompass check` prints and tests trust.

INV-1  Every record is whole, strict JSON of a format that we know.
INV-2  The frozen task list is the one that was sealed, and its ids are distinct.
INV-3  Every task directory is that of a frozen task, and its `task.json` says what the list says.
INV-4  A result is terminal, and of the task, the attempt and a leg of the place where it stands.
INV-5  A filed task has a result for each of its attempts, and stands under their worst issue.
INV-6  A task is filed once. (A `running` copy beside it is a leftover, and harmless.)
INV-7  Control records are numbered from 1 without a gap, and open one leg at a time.
INV-8  A run that says it is over has metrics of its own plan, valid by all rules.
INV-9  Metrics that cover the present results are what these results reduce to.
INV-10 Nothing is a symbolic link, and nothing unknown stands among tasks and attempts.
INV-11 A snapshot of the very execution that was published has all its artifacts (`deep` only).

Temporary files (`.tmp-*`) are ignored: a crash may leave them, and nobody reads them. A crash may
also leave `run_info.json` behind what it is computed from; that heals with the next look at the
run and is no violation, as long as it does not claim to be over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentcompass.errors import AgentCompassError, FormatUnknown, RecordCorrupt, RunNotFound
from agentcompass.metrics.report import build_report
from agentcompass.models.run_info import ControlRecord, MetricArtifacts, RunInfo
from agentcompass.store import control, disk, layout, records, report, sealed, tasks
from agentcompass.store.check_tasks import Violation, check_tasks
from agentcompass.store.scan import outcomes, results_digest, scan

__all__ = ["Violation", "check_run"]


def check_run(run_dir: Path, *, deep: bool = False) -> list[Violation]:
    """Read everything, change nothing, and return what is not as it has to be.

    Safe while the run is going on: what is found is looked for once more, with fresh listings and
    decisions, and returned only if it is still there. What is moved meanwhile is passed over.

    Args:
        deep: also digest the artifacts of snapshots, which reads every byte of them.

    Raises:
        RunNotFound: there is no run of ours at all.
        FormatUnknown: it is another writer's, or a newer version's.
    """
    found = _look(run_dir, deep=deep)
    if not found:
        return []
    places = {(each.invariant, each.path) for each in found}
    again = _look(run_dir, deep=deep)
    return [each for each in again if (each.invariant, each.path) in places]


def _look(run_dir: Path, *, deep: bool) -> list[Violation]:
    try:
        info = sealed.load(run_dir)
    except RecordCorrupt as error:
        return list(_as_violations(error))
    found = [*_check_params(run_dir), *_check_control(run_dir)]
    if info.sealed_at is None:
        return found
    try:
        control.legs(run_dir)
        found.extend(_check_task_list(run_dir, info))
        found.extend(check_tasks(run_dir, info, deep=deep))
    except (RecordCorrupt, RunNotFound) as error:
        # The task list or a control record cannot be read: nothing else can be judged by it.
        return _distinct([*found, *_as_violations(error)])
    found.extend(_check_report(run_dir, info, is_sound=not found))
    return _distinct(found)


def _distinct(found: list[Violation]) -> list[Violation]:
    return list(dict.fromkeys(found))


def _as_violations(error: AgentCompassError) -> Iterator[Violation]:
    if isinstance(error, RecordCorrupt):
        for path, problem in error.problems:
            yield Violation("INV-1", path, problem)
    elif isinstance(error, FormatUnknown):
        yield Violation("INV-1", error.path, f"has the unknown format {error.found!r}")
    else:
        yield Violation("INV-1", Path(), str(error))


def _check_params(run_dir: Path) -> Iterator[Violation]:
    path = run_dir / layout.PARAMS
    try:
        records.strict_json(disk.read(path), path)
    except FileNotFoundError:
        return
    except RecordCorrupt as error:
        yield from _as_violations(error)


def _check_control(run_dir: Path) -> Iterator[Violation]:
    """INV-1, INV-7."""
    directory = run_dir / layout.CONTROL
    if not disk.is_directory(directory):
        yield Violation("INV-7", directory, "is not there")
        return
    names = control.record_names(run_dir)  # once: the next record may come at any moment
    numbers = [layout.control_number(name) for name in names]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Violation("INV-7", directory, f"records {numbers} are not numbered without a gap")
    current = 1
    try:
        every = [records.read(directory / name, ControlRecord) for name in names]
    except (RecordCorrupt, FormatUnknown) as error:
        yield from _as_violations(error)
        return
    for name, record in zip(names, every, strict=True):
        if record.leg > current + 1:
            problem = f"speaks of leg {record.leg} after leg {current}"
            yield Violation("INV-7", directory / name, problem)
        if record.action in {"resume", "rerun", "quarantine"}:
            current = max(current, record.leg)


def _check_task_list(run_dir: Path, info: RunInfo) -> Iterator[Violation]:
    """INV-2."""
    path = run_dir / layout.TASKS
    if not disk.is_file(path):
        yield Violation("INV-2", path, "is not there, and the run is sealed")
        return
    if sealed.digest(run_dir) != info.tasks_sha256:
        yield Violation("INV-2", path, "is not the list that was sealed")
    seen: dict[str, int] = {}
    for entry in tasks.entries(run_dir):
        if entry.task_id in seen:
            lines = f"{seen[entry.task_id] + 1} and {entry.index + 1}"
            yield Violation("INV-2", path, f"has task {entry.task_id!r} in lines {lines}")
        seen[entry.task_id] = entry.index
    if len(seen) != info.task_count:
        yield Violation("INV-2", path, f"has {len(seen)} tasks, {info.task_count} were sealed")


def _check_report(run_dir: Path, info: RunInfo, *, is_sound: bool) -> Iterator[Violation]:
    """INV-8, INV-9. What is not sound is not reduced."""
    path = run_dir / layout.METRICS
    try:
        written = report.load_written(run_dir, report.expected_of(info))
    except AgentCompassError as error:
        yield Violation("INV-8", path, str(error))
        return
    if written is None:
        if info.status in {"completed", "failed"}:
            yield Violation("INV-8", path, f"is not there, and the run is {info.status}")
        return
    if is_sound and not info.custom_aggregation and _is_current(run_dir, written.covered):
        problems = list(_check_reduction(run_dir, info, written))
        # A result that came while we reduced is in our numbers, and rightly not in the report's.
        yield from problems if problems and _is_current(run_dir, written.covered) else ()


def _is_current(run_dir: Path, covered: MetricArtifacts | None) -> bool:
    return covered is not None and results_digest(scan(run_dir)) == covered.results_sha256


def _check_reduction(run_dir: Path, info: RunInfo, written: report.Written) -> Iterator[Violation]:
    if info.metric_contract is None:
        return
    override = report.override_of(written.covered)
    chosen = override or report.Override(info.aggregation, info.category_hierarchy)
    again = build_report(
        info.metric_contract,
        info.request.execution.attempts,
        outcomes(run_dir, info),
        aggregation=chosen.aggregation,
        category_hierarchy=chosen.category_hierarchy,
    )
    # The rules of INV-8 have made sure that both have the series of the plan, in its order.
    for one, other in zip(written.report.series, again.series, strict=True):
        if one != other:
            problem = f"series {one.series_id} is not what the results reduce to"
            yield Violation("INV-9", run_dir / layout.METRICS, problem)
