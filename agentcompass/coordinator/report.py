"""A run's numbers from its directory, with no executions; partial if the run is not over.

Ours are written back, because they are a function of the directory. Another writer's run is read
and never touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentcompass.coordinator.reading.formula import settled
from agentcompass.errors import RunIncomplete
from agentcompass.metrics.highlights import HighlightsTally
from agentcompass.metrics.report import PartialNote, ReportBuilder
from agentcompass.metrics.seal import sealed as with_seal
from agentcompass.metrics.text.analysis_part import render_analysis_terminal
from agentcompass.metrics.text.summary import SummaryContext, render_terminal
from agentcompass.metrics.validate import validate_report
from agentcompass.models.analysis import AnalysisSummary
from agentcompass.models.metric import MetricReport
from agentcompass.models.request import ComponentSpec
from agentcompass.models.run_info import RunInfo
from agentcompass.runtime.analysis import AnalysisTally, Analyzers
from agentcompass.runtime.finalize import Incomplete, Wanted, finalize, state_of
from agentcompass.runtime.reduce import Reduction, reduce, take_in
from agentcompass.store import control, run_info, scan, sealed
from agentcompass.store import report as files
from agentcompass.store.caught_up import caught_up
from agentcompass.store.foreign import ForeignRun, foreign_heads, is_foreign, open_foreign
from agentcompass.store.report import Override

COMPLETE: Final = 0
WITH_ERRORS: Final = 1
INCOMPLETE: Final = 3
_UNKNOWN: Final = "0" * 64
"""Nobody has taken a digest of another writer's results, and nothing is written that would need it."""
_GUESSED: Final = "The run has no frozen task list: its tasks are what it planned and what it left."


@dataclass(frozen=True, slots=True)
class Reported:
    """A run's report, ready to be shown."""

    run_dir: Path
    run_id: str
    state: str
    """As `run_info.status`; `unknown` for another writer's run that never ended."""
    report: MetricReport
    text: str
    """For a terminal."""
    is_over: bool
    analysis: AnalysisSummary | None = None
    """What analyzers say, if somebody asked for some just now; part of the text."""
    reason: str = ""
    """Why a run that is not over does not go on, in the words of whoever decided."""

    @property
    def exit_code(self) -> int:
        """0 complete; 1 over, with errors, gaps or no official value; 3 not over."""
        if not self.is_over:
            return INCOMPLETE
        headline = self.report.headline
        gaps = headline.counts.error + headline.counts.unavailable
        return WITH_ERRORS if gaps or headline.value is None else COMPLETE


def report(
    run_dir: Path,
    *,
    override: Override | None = None,
    analyzers: Sequence[ComponentSpec] = (),
    trusted_roots: Sequence[Path] | None = None,
) -> Reported:
    """Compute the report of any run again from its results and, if the run is ours, write it.

    Args:
        override: another cross-task formula; without it the run's own, also where the present report
            was made by another one.
        analyzers: look at every attempt now, its trajectory included; the run's own ones have done
            so and are only summarized again.
        trusted_roots: as for `components.load`.

    Raises:
        RunNotFound, RunNotSealed: there is nothing to report.
        RecordCorrupt: results that must be read cannot be; all of them are listed.
        FormatUnknown: the directory is of a format that we do not know.
        UsageError: the run's own aggregation needs a plug-in that is not here, or the other one
            does not fit.
        AggregationFailed, ReportInvalid: the run's own aggregation raised, or breaks a rule.
    """
    if is_foreign(run_dir):
        run = open_foreign(run_dir)
        return _of_foreign(run, override, Analyzers((), analyzers, trusted_roots))
    info = sealed.load_frozen(run_dir)
    own = Override(info.aggregation, info.category_hierarchy)
    formula = settled(override, own)
    wanted = Wanted(formula, is_anew=True, may_be_partial=True, analyzers=analyzers)
    done = finalize(run_dir, trusted_roots=trusted_roots, wanted=wanted)
    if isinstance(done, Incomplete):
        raise _incomplete(run_dir, done)
    made = _reported(run_dir, done.info, done.report, done.context)
    return _with_analysis(made, done.analysis) if analyzers else made


def complete(run_dir: Path) -> None:
    """Finalize a run whose attempts are all over.

    Raises:
        RunIncomplete: they are not. And what `report` raises.
    """
    done = finalize(run_dir)
    if isinstance(done, Incomplete):
        raise _incomplete(run_dir, done)


def _incomplete(run_dir: Path, done: Incomplete) -> RunIncomplete:
    planned = sealed.load_frozen(run_dir).attempt_count or 0
    return RunIncomplete(run_dir, done.count, planned)


def read(run_dir: Path) -> Reported:
    """Return how a run of ours stands: its report if it is over, else a partial one, not written.

    Raises:
        As `report`.
    """
    info = sealed.load_frozen(run_dir)
    found = caught_up(run_dir, info, scan.scan(run_dir))
    now = run_info.refresh(run_dir, found)
    is_over = now.status in {"completed", "failed"}
    made = files.load_report(run_dir, files.expected_of(info)) if is_over else None
    context = files.load_context(run_dir) if is_over else None
    if made is None or context is None:
        missing = sum(len(numbers) for _, numbers in scan.pending(run_dir, info, found))
        partial = PartialNote(status=state_of(found.legs), missing=missing)
        override = files.override_of(now.metric_artifacts) if is_over else None
        what = Reduction(run_dir, info, found.legs, override, None if is_over else partial)
        fresh = reduce(what, scan.heads(run_dir, info, found.legs))
        made, context = fresh.report, fresh.context
    return _reported(run_dir, now, made, context)


def _reported(
    run_dir: Path, info: RunInfo, made: MetricReport, context: SummaryContext
) -> Reported:
    is_over = info.status in {"completed", "failed"}
    text = render_terminal(made, context)
    reason = "" if is_over else control.legs(run_dir).reason
    return Reported(run_dir, info.run_id, info.status, made, text, is_over, reason=reason)


def _with_analysis(made: Reported, analysis: AnalysisSummary | None) -> Reported:
    if analysis is None:
        return made
    text = f"{made.text}\n{render_analysis_terminal(analysis)}"
    return replace(made, text=text, analysis=analysis)


def _of_foreign(run: ForeignRun, override: Override | None, analyzers: Analyzers) -> Reported:
    own = Override(run.aggregation)
    chosen = settled(override or own, own) or own
    builder = ReportBuilder(
        run.contract,
        run.attempts,
        aggregation=chosen.aggregation,
        category_hierarchy=chosen.category_hierarchy,
    )
    tally = HighlightsTally(builder.reducer)
    with AnalysisTally(analyzers) as voices:
        missing = take_in(foreign_heads(run), builder, tally, run.run_dir, voices)
        analysis = voices.summary(run.run_id, _UNKNOWN)
    status = run.status or "unknown"
    made = builder.report(PartialNote(status=status, missing=missing) if missing else None)
    made = with_seal(made)
    validate_report(made)
    context = SummaryContext(
        run_id=run.run_id,
        status=run.status,
        benchmark=run.benchmark_id,
        harness=run.harness_id,
        model=run.model_id,
        notes=(_GUESSED, *(analysis.problems if analysis is not None else ())),
        highlights=tally.highlights(),
    )
    text = render_terminal(made, context)
    reported = Reported(run.run_dir, run.run_id, status, made, text, is_over=not missing)
    return _with_analysis(reported, analysis)
