"""Why attempts failed, by cause: `extra.failures` of a report.

Counted are the final ERROR and FATAL issues of the attempts that count, and two causes that no
issue names: an attempt that never ended, and one that ended well but left no primary observation.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import Field

from agentcompass.metrics.extras import read_note
from agentcompass.metrics.per_task.series import observation
from agentcompass.metrics.per_task.tasks import CountedAttempts
from agentcompass.models.base import Frozen
from agentcompass.models.issue import Phase, Severity
from agentcompass.models.metric import MetricReport, MetricSpec
from agentcompass.models.result import AttemptOutcome

Culprit: TypeAlias = Literal["environment", "model endpoint", "harness", "evaluator", "agent"]

ATTEMPT_MISSING: Final = "attempt_missing"
OBSERVATION_MISSING: Final = "observation_missing"
MAX_CAUSES: Final = 100
"""Rows in a report: a plug-in may invent a code per task."""
MAX_EXAMPLES: Final = 3

_BY_CODE: Final[dict[str, Culprit]] = {
    "environment_failed": "environment",
    "artifact_transfer_failed": "environment",
    "worker_lost": "environment",
    "model_failed": "model endpoint",
    "model_timeout": "model endpoint",
    "secret_missing": "model endpoint",
    "model_empty_output": "agent",
    "run_timeout": "agent",
    "invalid_observation": "evaluator",
    OBSERVATION_MISSING: "evaluator",
}
_BY_PHASE: Final[dict[Phase, Culprit]] = {
    "setup": "environment",
    "run": "harness",
    "collect": "environment",
    "evaluate": "evaluator",
    "cleanup": "environment",
}


class FailureCause(Frozen):
    """One row of the table."""

    phase: Phase | None
    """None: the attempt never ended."""
    code: str
    severity: Severity | None
    """The worst one seen; None if there was no issue."""
    culprit: Culprit | None
    """Whose failure it is, as far as phase and code tell; None for what never ran."""
    attempts: int = Field(ge=1)
    tasks: int = Field(ge=1)
    examples: tuple[str, ...]
    """The first task ids in alphabetical order."""


class FailureTable(Frozen):
    """`extra.failures`, most tasks first; absent if nothing failed."""

    causes: tuple[FailureCause, ...] = Field(min_length=1)
    omitted: int = Field(default=0, ge=0)
    """Causes beyond the first `MAX_CAUSES`."""


def failure_table(report: MetricReport) -> FailureTable | None:
    """Return the table of a report, None if nothing failed or another writer left none."""
    return read_note(report.extra, "failures", FailureTable)


def rank(cause: FailureCause) -> tuple[int, int, str, str]:
    """Return the sort key of the table: most tasks first."""
    return -cause.tasks, -cause.attempts, cause.phase or "", cause.code


def culprit_of(phase: Phase | None, code: str) -> Culprit | None:
    """Return whose failure a cause is; a code that we do not know is judged by its phase."""
    by_phase = _BY_PHASE[phase] if phase is not None else None
    return _BY_CODE.get(code, by_phase)


_Cause: TypeAlias = tuple[Phase | None, str]
_WORST: Final[dict[Severity | None, int]] = {None: 0, "warning": 0, "error": 1, "fatal": 2}


@dataclass(slots=True)
class _Row:
    attempts: int = 0
    tasks: int = 0
    severity: Severity | None = None
    examples: list[str] = field(default_factory=list)

    def add_task(self, task_id: str) -> None:
        self.tasks += 1
        insort(self.examples, task_id)
        del self.examples[MAX_EXAMPLES:]


class FailureTally:
    """Counts causes task by task; the order of the tasks does not matter."""

    def __init__(self, primary: MetricSpec) -> None:
        self._primary = primary
        self._rows: dict[_Cause, _Row] = {}

    def add(self, task_id: str, counted: CountedAttempts) -> None:
        """Count one task."""
        in_task: set[_Cause] = set()
        for outcome in counted:
            in_attempt: dict[_Cause, Severity | None] = {}
            for cause, severity in self._causes(outcome):
                in_attempt[cause] = max(in_attempt.get(cause), severity, key=_WORST.__getitem__)
            for cause, severity in in_attempt.items():
                row = self._rows.setdefault(cause, _Row())
                row.attempts += 1
                row.severity = max(row.severity, severity, key=_WORST.__getitem__)
            in_task |= set(in_attempt)
        for cause in in_task:
            self._rows[cause].add_task(task_id)

    def table(self) -> FailureTable | None:
        """Return what was counted, None if nothing failed."""
        causes = sorted((self._cause(*key) for key in self._rows), key=rank)
        if not causes:
            return None
        omitted = len(causes[MAX_CAUSES:])
        return FailureTable(causes=tuple(causes[:MAX_CAUSES]), omitted=omitted)

    def _cause(self, phase: Phase | None, code: str) -> FailureCause:
        row = self._rows[phase, code]
        return FailureCause(
            phase=phase,
            code=code,
            severity=row.severity,
            culprit=culprit_of(phase, code),
            attempts=row.attempts,
            tasks=row.tasks,
            examples=tuple(row.examples),
        )

    def _causes(self, outcome: AttemptOutcome | None) -> Iterator[tuple[_Cause, Severity | None]]:
        if outcome is None:
            yield (None, ATTEMPT_MISSING), None
            return
        failures = [issue for issue in outcome.issues if issue.is_failure]
        for issue in failures:
            yield (issue.phase, issue.code), issue.severity
        is_silent = not failures and not outcome.skipped
        if is_silent and observation(self._primary, outcome) is None:
            yield ("evaluate", OBSERVATION_MISSING), None
