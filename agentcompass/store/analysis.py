"""`analysis_summary.json` and `.md`: there while they cover the results of `metrics.json`."""

from __future__ import annotations

from pathlib import Path

from agentcompass.errors import StoreError
from agentcompass.models.analysis import AnalysisSummary
from agentcompass.store import atomic, disk, layout, records
from agentcompass.store.report import replace_if_other


def write_analysis(run_dir: Path, summary: AnalysisSummary | None, text: str) -> None:
    """Replace what analyzers said of the run; None removes it. Writing the same changes nothing."""
    if summary is None:
        atomic.remove(run_dir / layout.ANALYSIS)
        atomic.remove(run_dir / layout.ANALYSIS_SUMMARY)
        return
    replace_if_other(run_dir / layout.ANALYSIS_SUMMARY, text.encode())
    replace_if_other(run_dir / layout.ANALYSIS, records.pretty(summary))


def load_analysis(run_dir: Path) -> AnalysisSummary | None:
    """Return what analyzers said of the run; None if there is nothing that can be relied on."""
    path = run_dir / layout.ANALYSIS
    try:
        return records.parse_fast(disk.read(path), AnalysisSummary, path)
    except (FileNotFoundError, StoreError):
        return None
