"""`analysis_summary.json`: what analyzers say of a whole run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentcompass.models.base import Frozen, JsonObject, Record, Sha256


class AnalyzerSummary(Frozen):
    """What one analyzer says, and over how many attempts."""

    params: JsonObject = Field(default_factory=dict)
    attempts: int = Field(ge=0)
    """Those that it has looked at."""
    failed: int = Field(default=0, ge=0)
    """Those at which it failed when somebody asked for it afterwards; at first, that is an issue."""
    summary: JsonObject | None = None
    """Null if there is none; then `error` says why, unless the analyzer makes none."""
    error: str = ""


class AnalysisSummary(Record):
    """The whole file; like the metrics a function of the directory."""

    schema_version: Literal["agentcompass.analysis_summary.v1"] = "agentcompass.analysis_summary.v1"
    run_id: str
    source: Literal["evaluation", "report"] = "evaluation"
    """`report`: somebody asked for other analyzers than the run's own."""
    results_sha256: Sha256
    """Of the results that it covers, as in `run_info.metric_artifacts`."""
    attempts: int = Field(ge=0)
    """With a result."""
    missing: int = Field(ge=0)
    """Without one."""
    analyzers: dict[str, AnalyzerSummary]

    @property
    def problems(self) -> tuple[str, ...]:
        """One line about each analyzer that gave no summary, or not of all that it was to look at."""
        return tuple(
            line
            for name, each in self.analyzers.items()
            for line in (
                f"Analyzer {name} gave no summary: {each.error}" if each.error else "",
                f"Analyzer {name} failed at {each.failed} attempts." if each.failed else "",
            )
            if line
        )
