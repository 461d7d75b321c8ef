"""One pass over a run's results: its report, and what a summary says beside the numbers.

Writes nothing. A benchmark that replaces the cross-task formula is loaded and asked, and what it
returns is held against every rule.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentcompass.errors import AgentCompassError, RunNotSealed, UsageError
from agentcompass.metrics.highlights import Execution, HighlightsTally
from agentcompass.metrics.report import PartialNote, ReportBuilder
from agentcompass.metrics.seal import sealed
from agentcompass.metrics.text import words
from agentcompass.metrics.text.summary import SummaryContext
from agentcompass.metrics.validate import validate_report
from agentcompass.models.analysis import AnalysisSummary
from agentcompass.models.issue import MESSAGE_LIMIT
from agentcompass.models.metric import MetricReport
from agentcompass.models.request import ComponentSpec
from agentcompass.models.run_info import RunInfo
from agentcompass.runtime import components
from agentcompass.runtime.analysis import AnalysisTally, Analyzers
from agentcompass.runtime.calling.awaited import awaited
from agentcompass.runtime.values.live import masked
from agentcompass.runtime.values.references import as_far_as_known
from agentcompass.store import disk, evidence, layout, scan
from agentcompass.store.legs import Legs
from agentcompass.store.names import task_dirname
from agentcompass.store.report import Override, expected_of
from agentcompass.store.results import ResultHead
from agentcompass.store.scan import TaskHeads

_NOTES: Final = ("partial", "failures")
"""What we say about a report as a whole, whatever a benchmark makes of its series."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """What to reduce, and how."""

    run_dir: Path
    info: RunInfo
    legs: Legs
    override: Override | None = None
    """Another cross-task formula than the frozen one."""
    partial: PartialNote | None = None
    trusted_roots: Sequence[Path] | None = None
    """As for `components.load`; only a benchmark that aggregates by itself is loaded at all, and
    analyzers."""
    results_sha256: str = ""
    """Of the results that are reduced, for the record of what analyzers say of them."""
    asked_for: Sequence[ComponentSpec] = ()
    """Analyzers that look at the attempts now, beside the run's own."""

    @property
    def analyzers(self) -> Analyzers:
        """All that are to say something; nobody without a digest to record."""
        if not self.results_sha256:
            return Analyzers()
        own = self.info.request.execution.analyzers
        return Analyzers(own, self.asked_for, self.trusted_roots)


@dataclass(frozen=True, slots=True)
class Reduced:
    """A report that keeps all rules, sealed, and what a summary says besides."""

    report: MetricReport
    context: SummaryContext
    analysis: AnalysisSummary | None = None
    """What analyzers say; None if there are none."""


class AggregationFailed(AgentCompassError):
    """A benchmark's own aggregation raised; nothing was written."""

    def __init__(self, benchmark: str, reason: str) -> None:
        super().__init__(benchmark, reason)
        self.benchmark = benchmark
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"aggregate_metrics of benchmark {self.benchmark!r} failed: {self.reason}\n"
            "  do: correct it, then `agentcompass report`; every result stays as it is"
        )


def reduce(what: Reduction, found: Iterable[TaskHeads]) -> Reduced:
    """Return the report over these tasks, each of which comes exactly once.

    Raises:
        RunNotSealed: nothing is frozen yet.
        UsageError: another formula does not fit; or the run's own one needs a benchmark that cannot
            be loaded here.
        AggregationFailed, ReportInvalid: that benchmark's formula raised, or breaks a rule.
    """
    info = what.info
    if info.metric_contract is None:
        raise RunNotSealed(what.run_dir)
    chosen = what.override or Override(info.aggregation, info.category_hierarchy)
    builder = ReportBuilder(
        info.metric_contract,
        info.request.execution.attempts,
        aggregation=chosen.aggregation,
        category_hierarchy=chosen.category_hierarchy,
    )
    tally = HighlightsTally(builder.reducer)
    with AnalysisTally(what.analyzers) as voices:
        take_in(found, builder, tally, what.run_dir, voices)
        analysis = voices.summary(info.run_id, what.results_sha256)
    made = builder.report(what.partial)
    if info.custom_aggregation:
        made = _by_own_formula(what, made)
    made = sealed(made)
    validate_report(made, expected_of(info, what.override))
    return Reduced(made, _context(what, made, tally, analysis), analysis)


def take_in(
    found: Iterable[TaskHeads],
    builder: ReportBuilder,
    tally: HighlightsTally,
    run_dir: Path,
    voices: AnalysisTally,
) -> int:
    """Read every task once, for the report and for what a summary says besides.

    Returns:
        How many attempts have no result.
    """
    below = len(f"{run_dir}/")
    missing = 0
    for task in found:
        outcomes = task.outcomes
        directory, executions = _executions(run_dir, task)
        tally.see(outcomes, builder.add(outcomes), executions, (directory or "")[below:])
        voices.see(task)
        missing += task.heads.count(None)
    return missing


def _executions(run_dir: Path, task: TaskHeads) -> tuple[str | None, list[Execution]]:
    """Return where a task stands and what its attempts cost, seen where it was not moved meanwhile."""
    directory = task.directory
    found = _executions_at(directory, task)
    # A filed task stays, or is opened again by a decision, after which the report is made anew.
    while directory is not None and _is_running(directory) and not disk.is_directory(directory):
        moved = disk.find(run_dir, task_dirname(task.task_id))
        directory = moved[1] if moved else None
        found = _executions_at(directory, task)
    return directory, found


def _executions_at(directory: str | None, task: TaskHeads) -> list[Execution]:
    return [_execution(head, directory, n) for n, head in enumerate(task.heads, start=1)]


def _is_running(directory: str) -> bool:
    return directory.rpartition("/")[0].endswith(f"/{layout.STATES[0]}")


def _execution(head: ResultHead | None, task_dir: str | None, number: int) -> Execution:
    tries = evidence.discarded(f"{task_dir}/{layout.attempt_dirname(number)}") if task_dir else ()
    return Execution(
        spend=head.spend if head is not None else None,
        duration_s=head.duration_s if head is not None else None,
        discarded=[each.spend for each in tries if each.spend is not None],
        is_reused=head is not None and bool(head.reused_from or head.agent_from),
    )


def _context(
    what: Reduction, made: MetricReport, tally: HighlightsTally, analysis: AnalysisSummary | None
) -> SummaryContext:
    """Return what `summary.md` says beside the numbers: equal for whoever writes it."""
    request = what.info.request
    done = "failed" if made.evaluation_failed else "completed"
    return SummaryContext(
        run_id=what.info.run_id,
        status=what.partial.status if what.partial else done,
        benchmark=request.benchmark.id,
        harness=request.harness.id,
        environment=request.environment.id,
        model=request.model.id,
        notes=(*_notes(what), *notes_of(analysis)),
        highlights=tally.highlights(),
    )


def notes_of(analysis: AnalysisSummary | None) -> Iterator[str]:
    """Yield what a summary says of what analyzers said."""
    if analysis is not None:
        yield f"What {words.plural(len(analysis.analyzers), 'analyzer')} saw: {layout.ANALYSIS_SUMMARY}."
        yield from analysis.problems


def _notes(what: Reduction) -> Iterator[str]:
    if what.override is not None:
        yield f"The aggregation is not the run's own, which is {what.info.aggregation}."
    source = what.info.reused_from
    if source is not None:
        taken = (
            f"{words.plural(source.attempts, 'attempt')} of {words.plural(source.tasks, 'task')}"
        )
        yield f"{taken} were taken from run {source.run_id}."
        fields = ", ".join(str(each.get("field")) for each in source.differences)
        if fields:
            yield f"What differs from that run: {fields}."


def _by_own_formula(what: Reduction, made: MetricReport) -> MetricReport:
    spec = what.info.request.benchmark
    try:
        benchmark = components.load(
            "benchmark", as_far_as_known(spec, os.environ), trusted_roots=what.trusted_roots
        )
    except UsageError as error:
        raise UsageError(
            f"the report needs benchmark {spec.id!r}, whose aggregate_metrics is part of it: {error.what}",
            where=str(what.run_dir),
            hint="install it here, or trust its folder with --trust; every result stays as it is",
        ) from error
    details = scan.details(what.run_dir, what.info, what.legs)
    try:
        found: object = awaited(benchmark.aggregate_metrics(details, made))
    except AgentCompassError:
        raise
    except Exception as error:  # a plug-in may raise anything
        reason = masked(" ".join(f"{type(error).__name__}: {error}".split()))[:MESSAGE_LIMIT]
        raise AggregationFailed(spec.id, reason) from error
    if not isinstance(found, MetricReport):
        raise AggregationFailed(spec.id, f"it returned a {type(found).__name__}, not a report")
    theirs = {name: value for name, value in found.extra.items() if name not in _NOTES}
    ours = {name: made.extra[name] for name in _NOTES if name in made.extra}
    return found.model_copy(update={"extra": {**theirs, **ours}})
