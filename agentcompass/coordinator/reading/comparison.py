"""`compare`: runs of any writer, paired by task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcompass.coordinator.reading.run import ReadableRun, open_run
from agentcompass.errors import UsageError
from agentcompass.metrics.compare import Comparison, Pair, Side, compare, pairs, side_of
from agentcompass.metrics.per_task.tasks import TaskReducer
from agentcompass.metrics.text.compare_part import ComparedRun
from agentcompass.metrics.text.words import plural
from agentcompass.models.result import TaskOutcomes


@dataclass(frozen=True, slots=True)
class Compared:
    """The first run against each of the others."""

    runs: tuple[ComparedRun, ...]
    found: tuple[Comparison, ...]
    warnings: tuple[str, ...]
    """Why a difference may be about something else than the agents."""
    _sides: tuple[Side, ...]

    def pairs(self) -> Iterator[tuple[str, Pair]]:
        """Yield (name of the other run, one task in both), every task of either."""
        first, *others = self._sides
        for other in others:
            for pair in pairs(first, other):
                yield other.name, pair


def compare_runs(
    run_dirs: Sequence[Path], *, series_id: str | None = None, on_intersection: bool = False
) -> Compared:
    """Compare the first run with each of the others; keeps one number per task and run.

    Args:
        series_id: by default the headline.
        on_intersection: compare on common tasks instead of refusing other task sets.

    Raises:
        ComparisonRefused: benchmark, attempt plan, series or task set differ.
        RecordCorrupt: results that must be read cannot be; all of one run are listed.
        And what `open_run` raises.
    """
    if len({path.resolve() for path in run_dirs}) < len(run_dirs):
        raise UsageError("a run is to be compared with itself", hint="name different runs")
    opened = [open_run(path) for path in run_dirs]
    names = _names(opened)
    seen = [_Seen(run) for run in opened]
    sides = tuple(
        side_of(name, run.benchmark, TaskReducer(run.contract, run.attempts), each, series_id)
        for name, run, each in zip(names, opened, seen, strict=True)
    )
    found = compare(sides[0], sides[1:], on_intersection=on_intersection)
    runs = tuple(
        _as_compared(side, run, each.missing)
        for side, run, each in zip(sides, opened, seen, strict=True)
    )
    warnings = tuple(_warnings(opened, names, sides, runs))
    return Compared(runs, found, warnings, sides)


class _Seen:
    """The outcomes of a run, counting the attempts that have no result."""

    def __init__(self, run: ReadableRun) -> None:
        self._run = run
        self.missing = 0

    def __iter__(self) -> Iterator[TaskOutcomes]:
        for task in self._run.heads():
            self.missing += task.heads.count(None)
            yield task.outcomes


def _names(opened: Sequence[ReadableRun]) -> Sequence[str]:
    """Return what the runs are called: by their ids if these tell them apart, else by their paths."""
    ids = [run.run_id for run in opened]
    return ids if len(set(ids)) == len(ids) else [str(run.run_dir) for run in opened]


def _as_compared(side: Side, run: ReadableRun, missing: int) -> ComparedRun:
    return ComparedRun(
        name=side.name,
        path=str(run.run_dir),
        state=run.state,
        benchmark=run.benchmark,
        harness=run.harness,
        environment=run.environment,
        model=run.model,
        k=run.attempts.k,
        strategy=run.attempts.strategy,
        tasks=len(side.values),
        with_value=sum(value is not None for value in side.values.values()),
        missing_attempts=missing,
    )


def _warnings(
    opened: Sequence[ReadableRun],
    names: Sequence[str],
    sides: Sequence[Side],
    runs: Sequence[ComparedRun],
) -> Iterator[str]:
    for each in runs:
        if each.missing_attempts:
            missing = plural(each.missing_attempts, "attempt")
            yield f"{each.name} is partial: {missing} without a result"
    contents = dict(opened[0].contents()) if opened[0].contents is not None else None
    for run, name, side in zip(opened[1:], names[1:], sides[1:], strict=True):
        if run.benchmark_params != opened[0].benchmark_params:
            yield f"the benchmark has other parameters in {name}"
        if contents is not None and run.contents is not None:
            changed = _changed(contents, run.contents())
            if changed:
                yield f"{plural(changed, 'task')} of {name} with other contents under the same id"
        if side.values.keys() != sides[0].values.keys():
            yield f"compared with {name} on the common tasks only"


def _changed(ours: Mapping[str, bytes], theirs: Iterator[tuple[str, bytes]]) -> int:
    return sum(ours.get(task_id, digest) != digest for task_id, digest in theirs)
