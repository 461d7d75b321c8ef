"""`metrics.json` and `summary.md`, and what stands beside them.

`.covered.json` says which results the metrics cover and by which formula; the metrics themselves hold
nothing that depends on time or place. `.summary.json` holds what the summary says besides, so that a
terminal can show it without reading every result again. Both name the digest of the very bytes they
speak of: two finalizers that overlap, or one that is killed, leave a note that does not fit, which
reads as "nobody knows", and whoever sees that finalizes again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from pydantic import JsonValue

from agentcompass.errors import StoreError
from agentcompass.metrics.seal import KEY, sealed
from agentcompass.metrics.text.summary import SummaryContext
from agentcompass.metrics.validate import Expected, ReportInvalid, validate_report
from agentcompass.models.base import Record, Sha256
from agentcompass.models.metric import MetricReport
from agentcompass.models.run_info import MetricArtifacts, ReportIdentity, RunInfo
from agentcompass.store import atomic, disk, layout, records
from agentcompass.store.scan import Coverage

COVERED_SCHEMA: Final = "agentcompass.covered.v1"
CONTEXT_SCHEMA: Final = "agentcompass.summary_context.v1"
_LOOKS: Final = 4
"""A report that is replaced more often than this while it is read is one of which nobody knows."""


class Covered(Record):
    """`.covered.json`."""

    schema_version: Literal["agentcompass.covered.v1"] = COVERED_SCHEMA
    metrics_sha256: Sha256
    """Of the bytes of the `metrics.json` that this speaks of."""
    metric_artifacts: MetricArtifacts


class Context(Record):
    """`.summary.json`."""

    schema_version: Literal["agentcompass.summary_context.v1"] = CONTEXT_SCHEMA
    metrics_sha256: Sha256
    context: SummaryContext


@dataclass(frozen=True, slots=True)
class Written:
    """A report that was read back."""

    report: MetricReport
    covered: MetricArtifacts | None
    """What it covers, and by which formula; None if nobody knows."""


@dataclass(frozen=True, slots=True)
class Override:
    """Another cross-task formula than the frozen one, because somebody asked for it."""

    aggregation: str
    category_hierarchy: JsonValue = None


def write_report(
    run_dir: Path,
    report: MetricReport,
    summary_md: str,
    *,
    coverage: Coverage,
    override: Override | None = None,
    context: SummaryContext | None = None,
) -> MetricArtifacts:
    """Write metrics, sealed, with their summary and what they cover, and return the last.

    Each file is replaced whole, and not at all if it is there with these bytes: finalizing twice
    changes nothing. `run_info.refresh` comes after this.

    Args:
        override: by which formula the report was made, if not by the run's own.
        context: what the summary says besides.

    Raises:
        ReportInvalid: the report breaks a rule; nothing was written.
    """
    validate_report(report)
    metrics = records.pretty(sealed(report))
    digest = sha256(metrics).hexdigest()
    artifacts = MetricArtifacts(
        generated_at=coverage.generated_at,
        source="report" if override else "evaluation",
        results_sha256=coverage.results_sha256,
        report=ReportIdentity(
            k=report.k,
            strategy=report.strategy,
            aggregation=report.aggregation,
            category_hierarchy=override.category_hierarchy if override else None,
        ),
    )
    covered = Covered(metrics_sha256=digest, metric_artifacts=artifacts)
    replace_if_other(run_dir / layout.METRICS, metrics)
    replace_if_other(run_dir / layout.SUMMARY, summary_md.encode())
    if context is not None:
        beside = Context(metrics_sha256=digest, context=context)
        replace_if_other(run_dir / layout.CONTEXT, records.compact(beside))
    replace_if_other(run_dir / layout.COVERED, records.compact(covered))
    return artifacts


def expected_of(info: RunInfo, override: Override | None = None) -> Expected | None:
    """Return what a run's frozen plan says about its report; None before the plan is frozen."""
    if info.metric_contract is None:
        return None
    chosen = override or Override(info.aggregation, info.category_hierarchy)
    return Expected(
        contract=info.metric_contract,
        attempts=info.request.execution.attempts,
        aggregation=chosen.aggregation,
        category_hierarchy=chosen.category_hierarchy,
        total=info.task_count,
        has_own_formula=info.custom_aggregation,
    )


def override_of(artifacts: MetricArtifacts | None) -> Override | None:
    """Return the formula that was asked for; None if it is the run's own."""
    if artifacts is None or artifacts.source == "evaluation":
        return None
    return Override(artifacts.report.aggregation, artifacts.report.category_hierarchy)


def load_report(run_dir: Path, expected: Expected | None = None) -> MetricReport | None:
    """Return the report, validated by all rules; None if there is none. See `load_written`."""
    written = load_written(run_dir, expected)
    return written.report if written is not None else None


def load_written(run_dir: Path, expected: Expected | None = None) -> Written | None:
    """Return the report, validated by all rules, and what it covers; None if there is none.

    Args:
        expected: see `expected_of`; without it the report is held against itself only. If the report
            was made by another formula on request, that one takes the place of the frozen one; if
            nobody knows by which, the one that the report names.

    Raises:
        RecordCorrupt, FormatUnknown, ReportInvalid: it cannot be relied on.
    """
    found = _pair(run_dir)
    if found is None:
        return None
    metrics, covered = found
    report = records.parse(metrics, MetricReport, run_dir / layout.METRICS)
    if expected is not None and KEY not in report.extra:
        raise ReportInvalid([f"extra.{KEY}: the report was never sealed"])
    validate_report(report, _as_asked_for(expected, covered))
    return Written(report, covered)


def load_covered(run_dir: Path) -> MetricArtifacts | None:
    """Return what `metrics.json` covers; None if there is none or nobody knows.

    Raises:
        RecordCorrupt, FormatUnknown: there is a note, and it cannot be relied on.
    """
    found = _pair(run_dir)
    return found[1] if found is not None else None


def load_context(run_dir: Path) -> SummaryContext | None:
    """Return what the summary of the present metrics says besides; None if nobody knows."""
    path = run_dir / layout.CONTEXT
    try:
        metrics = disk.read(run_dir / layout.METRICS)
        beside = records.parse_fast(disk.read(path), Context, path)
    except (FileNotFoundError, StoreError):
        return None
    return beside.context if beside.metrics_sha256 == sha256(metrics).hexdigest() else None


def _pair(run_dir: Path) -> tuple[bytes, MetricArtifacts | None] | None:
    """Return the bytes of the metrics and what they cover, from one moment; None if there are none."""
    path = run_dir / layout.METRICS
    try:
        metrics = disk.read(path)
        for _ in range(_LOOKS):
            covered = _note(run_dir)
            if covered is not None and covered.metrics_sha256 == sha256(metrics).hexdigest():
                return metrics, covered.metric_artifacts
            before, metrics = metrics, disk.read(path)
            if before == metrics:
                break
    except FileNotFoundError:
        return None
    return metrics, None


def _note(run_dir: Path) -> Covered | None:
    try:
        return records.read(run_dir / layout.COVERED, Covered)
    except FileNotFoundError:
        return None


def _as_asked_for(expected: Expected | None, covered: MetricArtifacts | None) -> Expected | None:
    if expected is None:
        return None
    if covered is None:
        return replace(expected, is_formula_known=False)
    override = override_of(covered)
    if override is None:
        return expected
    return replace(
        expected,
        aggregation=override.aggregation,
        category_hierarchy=override.category_hierarchy,
    )


def replace_if_other(path: Path, data: bytes) -> None:
    """Replace a file that anybody can make again, unless it holds these bytes."""
    try:
        if disk.read(path) == data:
            return
    except FileNotFoundError:
        pass
    atomic.replace(path, data)
