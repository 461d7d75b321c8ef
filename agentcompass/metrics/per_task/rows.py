"""One task as a row: each attempt, each value, and why there is none (for tables and exports)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import Field

from agentcompass.metrics.per_task.series import observation
from agentcompass.metrics.per_task.tasks import CountedAttempts, TaskReducer
from agentcompass.models.base import Frozen
from agentcompass.models.issue import Issue
from agentcompass.models.result import AttemptOutcome, TaskOutcomes

AttemptState: TypeAlias = Literal["observed", "no_observation", "missing", "not_counted"]
TaskState: TypeAlias = Literal["evaluated", "unavailable", "invalidated"]
_REASON_LIMIT: Final = 200

MAX_SHOWN: Final = 20
"""Attempts in a line."""
MISSING: Final = "–"
NOT_COUNTED: Final = "·"
CUT: Final = "…"


class AttemptRow(Frozen):
    """One planned attempt."""

    attempt: int = Field(ge=1)
    state: AttemptState
    """`missing` has no terminal result; `not_counted` comes after the first success of `pass`."""
    value: float | None
    """The primary observation; None is not zero."""
    has_error: bool


class TaskRow(Frozen):
    """One task of the frozen list; the series values of a report follow from these alone."""

    task_id: str
    category: str
    state: TaskState
    """In the headline series."""
    has_error: bool
    attempts: tuple[AttemptRow, ...]
    value: float | None
    """In the headline series."""
    values: dict[str, float | None]
    """Series id -> value of this task."""
    reason: str
    """Why the headline has no value of it; "" if it has."""


def task_row(reducer: TaskReducer, task: TaskOutcomes) -> TaskRow:
    """Return the row of one task."""
    counted = reducer.counted(task)
    reduced = reducer.reduce(counted)
    values = {
        plan.series_id: value for plan, value in zip(reducer.series, reduced.values, strict=True)
    }
    headline = values[reducer.headline.series_id]
    state: TaskState = "evaluated" if headline is not None else "unavailable"
    return TaskRow(
        task_id=task.task_id,
        category=task.category,
        state="invalidated" if reduced.is_invalidated else state,
        has_error=reduced.has_error,
        attempts=tuple(
            _attempt_row(reducer, number, counted) for number in range(1, reducer.k + 1)
        ),
        value=headline,
        values=values,
        reason="" if headline is not None else _reason(reducer, counted),
    )


def _attempt_row(reducer: TaskReducer, number: int, counted: CountedAttempts) -> AttemptRow:
    if number > len(counted):
        return AttemptRow(attempt=number, state="not_counted", value=None, has_error=False)
    outcome = counted[number - 1]
    value = observation(reducer.contract.primary, outcome)
    state: AttemptState = "observed" if value is not None else "no_observation"
    return AttemptRow(
        attempt=number,
        state="missing" if outcome is None else state,
        value=value,
        has_error=outcome is not None and any(issue.is_failure for issue in outcome.issues),
    )


def _reason(reducer: TaskReducer, counted: CountedAttempts) -> str:
    """Return the worst cause in words: a FATAL, else the first attempt without an observation."""
    numbered = list(enumerate(counted, start=1))
    for number, outcome in numbered:
        for issue in outcome.issues if outcome is not None else ():
            if issue.severity == "fatal":
                return _told(number, issue)
    without = [
        (number, outcome)
        for number, outcome in numbered
        if observation(reducer.contract.primary, outcome) is None
    ]
    if not without:
        return "its reducer gives no value"
    first = _why_unobserved(*without[0], reducer.contract.primary.metric_id)
    others = len(without) - 1
    return f"{first} (and {others} more attempt{'s' if others > 1 else ''})" if others else first


def _why_unobserved(number: int, outcome: AttemptOutcome | None, metric_id: str) -> str:
    if outcome is None:
        return f"attempt {number} has no result"
    failure = next((issue for issue in outcome.issues if issue.is_failure), None)
    if failure is not None:
        return _told(number, failure)
    if outcome.skipped:
        return f"attempt {number} was skipped"
    return f"attempt {number} has no observation {metric_id!r}"


def _told(number: int, issue: Issue) -> str:
    message = " ".join(issue.message.split())
    if len(message) > _REASON_LIMIT:
        message = message[: _REASON_LIMIT - 1] + "…"
    told = f"attempt {number}: {issue.severity} {issue.phase} {issue.code}"
    return f"{told}: {message}" if message else told


class TaskLine(Frozen):
    """A task in one line: its attempts side by side, and its value or why it has none."""

    task_id: str
    state: TaskState
    value: float | None = None
    """In the headline series."""
    reason: str = ""
    attempts: tuple[str, ...] = ()
    """In order: the primary observation; `–` no result, `·` not counted, `error` or `none` without
    an observation; `!` behind a value that came with an error; `…` for those that are cut."""
    directory: str = ""
    """Relative to the run; attempt n is in `attempt-<n>` below it."""


def task_line(row: TaskRow, directory: str = "") -> TaskLine:
    """Return a row as one line."""
    words = [_word(each) for each in row.attempts[:MAX_SHOWN]]
    return TaskLine(
        task_id=row.task_id,
        state=row.state,
        value=row.value,
        reason=row.reason,
        attempts=(*words, CUT) if len(row.attempts) > MAX_SHOWN else tuple(words),
        directory=directory,
    )


def _word(row: AttemptRow) -> str:
    if row.value is not None:
        return f"{row.value:.4g}{'!' if row.has_error else ''}"
    if row.state == "no_observation":
        return "error" if row.has_error else "none"
    return MISSING if row.state == "missing" else NOT_COUNTED
