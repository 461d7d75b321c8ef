"""Completes a run: files its tasks, reduces it, writes its report. Derived and repeatable.

Used by the chord's callback, the watchdog, `resume` and `report`, on any machine, any number of
times at once: all write the same bytes. As long as an attempt is missing nothing final is written.
A cancelled run gets a partial report, which says that it is one.

The digest of the results covered is taken *before* they are read and compared after the report was
written: if results came meanwhile, it is done again. So it is if another finalizer, by another formula,
wrote in between, so that nobody knows what the report covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from agentcompass.errors import StoreError
from agentcompass.metrics.report import PartialNote
from agentcompass.metrics.text.analysis_part import render_analysis
from agentcompass.metrics.text.summary import SummaryContext, render_summary
from agentcompass.metrics.validate import ReportInvalid
from agentcompass.models.analysis import AnalysisSummary
from agentcompass.models.metric import MetricReport
from agentcompass.models.request import ComponentSpec
from agentcompass.models.run_info import RunInfo
from agentcompass.runtime.reduce import Reduced, Reduction, reduce
from agentcompass.store import control, filing, names, report, run_info, scan, sealed, tasks
from agentcompass.store.analysis import load_analysis, write_analysis
from agentcompass.store.caught_up import caught_up
from agentcompass.store.legs import Legs
from agentcompass.store.report import Override
from agentcompass.store.scan import Coverage, RunScan

_ROUNDS: Final = 8
"""A run to which results come for longer than this is finalized by whoever brings the last one."""
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Attempts without a terminal result; nothing final was written."""

    missing: tuple[tuple[str, int], ...]
    """The first 100 of them: (task id, attempt), in the order of the run."""
    count: int
    """All of them."""


@dataclass(frozen=True, slots=True)
class Finalized:
    """The report is on disk and `run_info.json` says what it covers."""

    report: MetricReport
    """Partial (`extra.partial`) if attempts are missing."""
    context: SummaryContext
    """What its summary says besides."""
    info: RunInfo
    analysis: AnalysisSummary | None = None
    """What analyzers say; None if there are none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asks for who wants more than a run to be completed."""

    override: Override | None = None
    """Another cross-task formula than the frozen one."""
    is_anew: bool = False
    """Compute it even if it is there and covers these very results."""
    may_be_partial: bool = False
    """Report on what there is, whatever is missing."""
    analyzers: Sequence[ComponentSpec] = ()
    """Analyzers that look at the attempts now, beside the run's own."""
    sleep: Callable[[float], object] | None = None
    """Waits before the run is listed again, if its report covers more than is in sight."""


JUST_COMPLETE: Final = Wanted()


def finalize(
    run_dir: Path,
    *,
    trusted_roots: Sequence[Path] | None = None,
    wanted: Wanted = JUST_COMPLETE,
) -> Finalized | Incomplete:
    """Complete the run, or say what is missing; idempotent.

    Args:
        run_dir: a sealed run of ours.
        trusted_roots: as for `components.load`; only a benchmark that aggregates by itself is
            loaded at all.
        wanted: a report by another formula stays until there are other results.

    Raises:
        RunNotFound, RunNotSealed: there is nothing to complete.
        RecordCorrupt, FormatUnknown: results that must be read cannot be; the former lists them all.
        AggregationFailed, ReportInvalid: the benchmark's own aggregation raised, or breaks a rule.
        UsageError: that aggregation cannot be loaded here, or another formula does not fit.
    """
    info = sealed.load_frozen(run_dir)
    for round_number in range(1, _ROUNDS + 1):
        found = _filed(run_dir, info, scan.scan(run_dir))
        count = _count_missing(run_dir, info, found)
        if count and (wanted.may_be_partial or found.legs.state == "cancelled"):
            found = _filed(run_dir, info, caught_up(run_dir, info, found, wanted.sleep))
            count = _count_missing(run_dir, info, found)
        legs = found.legs
        if count and legs.state != "cancelled" and not wanted.may_be_partial:
            return Incomplete(tuple(islice(_names(run_dir, info, found), _SHOWN)), count)
        partial = PartialNote(status=state_of(legs), missing=count) if count else None
        digest = scan.results_digest(found)
        what = Reduction(
            run_dir=run_dir,
            info=info,
            legs=legs,
            override=wanted.override,
            partial=partial,
            trusted_roots=trusted_roots,
            results_sha256=digest,
            asked_for=wanted.analyzers,
        )
        made = None if wanted.is_anew else _present(what, digest)
        made = made or _written(what, digest)
        again = _again(run_dir, found, is_complete=not count)
        is_current = again is found or scan.results_digest(again) == digest
        is_settled = is_current and _is_covered(run_dir, digest)
        if is_settled or round_number == _ROUNDS:
            info = run_info.refresh(run_dir, again)
            return Finalized(made.report, made.context, info, made.analysis)
    raise AssertionError("the last round returns")


def state_of(legs: Legs) -> str:
    """Return what a run is doing that is not over."""
    if legs.state != "open":
        return legs.state
    return "interrupted" if legs.is_interrupted else "running"


def _again(run_dir: Path, found: RunScan, *, is_complete: bool) -> RunScan:
    """Look whether there are other results by now.

    Where none is missing only a decision can change that: a result that counts is never replaced.
    """
    if is_complete and control.legs(run_dir) == found.legs:
        return found
    return scan.scan(run_dir)


def _is_covered(run_dir: Path, digest: str) -> bool:
    """Return whether a whole report on these results is there: an older or half a one may overtake ours."""
    covered = report.load_covered(run_dir)
    return covered is not None and covered.results_sha256 == digest


def _filed(run_dir: Path, info: RunInfo, found: RunScan) -> RunScan:
    """File every task that is over and still stands in `running`, and look again if there was one."""
    plan = info.request.execution.attempts
    over = {
        dirname
        for dirname, task in found.tasks.items()
        if task.state == "running" and len(task.published) >= plan.k
    }
    if not over:
        return found
    for entry in tasks.entries(run_dir):
        if names.task_dirname(entry.task_id) in over:
            filing.file_if_terminal(run_dir, entry.task_id, plan, legs=found.legs)
    return scan.scan(run_dir, found.legs)


def _count_missing(run_dir: Path, info: RunInfo, found: RunScan) -> int:
    return sum(len(numbers) for _, numbers in scan.pending(run_dir, info, found))


def _names(run_dir: Path, info: RunInfo, found: RunScan) -> Iterator[tuple[str, int]]:
    for entry, numbers in scan.pending(run_dir, info, found):
        yield from ((entry.task_id, number) for number in numbers)


def _present(what: Reduction, digest: str) -> Reduced | None:
    """Return the report that is there, if it covers these very results and all of it is known."""
    try:
        covered = report.load_covered(what.run_dir)
        if covered is None or covered.results_sha256 != digest:
            return None
        made = report.load_report(what.run_dir, report.expected_of(what.info))
    except (ReportInvalid, StoreError):
        return None  # nobody can rely on it; it is made again
    context = report.load_context(what.run_dir)
    is_partial = made is not None and "partial" in made.extra
    if made is None or context is None or is_partial != (what.partial is not None):
        return None
    said = load_analysis(what.run_dir) if what.analyzers else None
    if what.analyzers and (said is None or said.results_sha256 != digest):
        return None
    return Reduced(made, context, said)


def _written(what: Reduction, digest: str) -> Reduced:
    """Compute and write the report.

    The digest of what it covers is older than any result that is read.
    """
    run_dir, info = what.run_dir, what.info
    coverage = Coverage(digest, info.sealed_at or info.started_at)
    made = reduce(what, scan.heads(run_dir, info, what.legs, coverage=coverage))
    text = render_analysis(made.analysis) if made.analysis is not None else ""
    write_analysis(run_dir, made.analysis, text)
    report.write_report(
        run_dir,
        made.report,
        render_summary(made.report, made.context),
        coverage=coverage,
        override=what.override,
        context=made.context,
    )
    return made
