"""The columns of an export: names, types, and the value of each in a row. See docs/metrics.md.

A name never changes its meaning; new columns are added at the end of the fixed part. What is not
known is null, never zero and never an empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from agentcompass.coordinator.reading.run import ReadableRun
from agentcompass.metrics.per_task.rows import AttemptRow, TaskRow
from agentcompass.metrics.usage import Spend
from agentcompass.models.base import Timestamp
from agentcompass.models.issue import Issue, Severity
from agentcompass.models.metric import MetricSpec
from agentcompass.store import layout
from agentcompass.store.results import ResultHead
from agentcompass.store.scan import TaskHeads

Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "time", "numbers", "texts"]
Value: TypeAlias = (
    str | int | float | bool | Timestamp | Sequence[float | None] | Sequence[str | None] | None
)
RowT = TypeVar("RowT")

_SEVERITY: Final[Mapping[Severity, int]] = {"warning": 0, "error": 1, "fatal": 2}


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """One column of rows of one kind."""

    name: str
    kind: Kind
    value: Callable[[RowT], Value]


@dataclass(frozen=True, slots=True)
class OfTask:
    """A task with everything that a row can be made of."""

    run: ReadableRun
    heads: TaskHeads
    row: TaskRow

    def path(self, number: int | None = None) -> str | None:
        """Return the run-relative path of the task's directory, or of an attempt's result."""
        if self.heads.directory is None:
            return None
        directory = self.heads.directory.removeprefix(f"{self.run.run_dir}/")
        if number is None:
            return directory
        head = self.heads.heads[number - 1]
        if head is None or not head.is_on_disk:
            return None
        return f"{directory}/{layout.attempt_dirname(number)}/{layout.RESULT}"


@dataclass(frozen=True, slots=True)
class OfAttempt:
    """One planned attempt of a task."""

    task: OfTask
    row: AttemptRow
    head: ResultHead | None

    @property
    def worst(self) -> Issue | None:
        """The most severe issue, of equal ones the first."""
        issues = self.head.outcome.issues if self.head is not None else ()
        return max(issues, key=lambda issue: _SEVERITY[issue.severity], default=None)

    @property
    def spend(self) -> Spend:
        """Of its result."""
        return (self.head.spend if self.head is not None else None) or Spend()


def attempt_columns(run: ReadableRun) -> tuple[Column[OfAttempt], ...]:
    """Return the columns of one row per planned attempt."""
    return (*_ATTEMPT, *(_observed(spec) for spec in run.contract.metrics))


def task_columns(series: Sequence[str]) -> tuple[Column[OfTask], ...]:
    """Return the columns of one row per task; `series` are the ids of the report's."""
    return (*_TASK, *(_series(series_id) for series_id in series))


def _observed(spec: MetricSpec) -> Column[OfAttempt]:
    kind: Kind = "boolean" if spec.kind == "binary_success" else "number"

    def value(of: OfAttempt) -> Value:
        found = of.head.outcome.metrics.get(spec.metric_id) if of.head is not None else None
        if found is None or isinstance(found, bool) != (kind == "boolean"):
            return None
        return found if kind == "boolean" else float(found)

    return Column(f"metric_{spec.metric_id}", kind, value)


def _series(series_id: str) -> Column[OfTask]:
    return Column(series_id, "number", lambda of: of.row.values[series_id])


def _head(value: Callable[[ResultHead], Value]) -> Callable[[OfAttempt], Value]:
    return lambda of: value(of.head) if of.head is not None else None


def _issue(value: Callable[[Issue], str]) -> Callable[[OfAttempt], Value]:
    def found(of: OfAttempt) -> Value:
        worst = of.worst
        return value(worst) if worst is not None else None

    return found


def _of_the_task(task: Callable[[RowT], OfTask]) -> tuple[Column[RowT], ...]:
    """Return the columns that every row begins with."""
    return (
        Column("run_id", "text", lambda row: task(row).run.run_id),
        Column("run_state", "text", lambda row: task(row).run.state),
        Column("benchmark", "text", lambda row: task(row).run.benchmark),
        Column("harness", "text", lambda row: task(row).run.harness),
        Column("environment", "text", lambda row: task(row).run.environment or None),
        Column("model", "text", lambda row: task(row).run.model),
        Column("task_id", "text", lambda row: task(row).row.task_id),
        Column("category", "text", lambda row: task(row).row.category),
        Column("k", "integer", lambda row: task(row).run.attempts.k),
    )


_ATTEMPT: Final[tuple[Column[OfAttempt], ...]] = (
    *_of_the_task(lambda of: of.task),
    Column("attempt", "integer", lambda of: of.row.attempt),
    Column("state", "text", lambda of: of.row.state),
    Column("status", "text", _head(lambda head: head.status)),
    Column("severity", "text", _issue(lambda issue: issue.severity)),
    Column("phase", "text", _issue(lambda issue: issue.phase)),
    Column("code", "text", _issue(lambda issue: issue.code)),
    Column("message", "text", _issue(lambda issue: issue.message)),
    Column("issues", "integer", _head(lambda head: len(head.outcome.issues))),
    Column("retry_count", "integer", _head(lambda head: head.retry_count)),
    Column("leg", "integer", _head(lambda head: head.leg)),
    Column("worker", "text", _head(lambda head: head.worker or None)),
    Column("reused_from", "text", _head(lambda head: head.reused_from or None)),
    Column("started_at", "time", _head(lambda head: head.started_at)),
    Column("finished_at", "time", _head(lambda head: head.finished_at)),
    Column("duration_s", "number", _head(lambda head: head.duration_s)),
    Column("input_tokens", "integer", lambda of: of.spend.input_tokens),
    Column("output_tokens", "integer", lambda of: of.spend.output_tokens),
    Column("cost_usd", "number", lambda of: of.spend.cost_usd),
    Column("result_path", "text", lambda of: of.task.path(of.row.attempt)),
)


def _total(value: Callable[[ResultHead], float | None]) -> Callable[[OfTask], Value]:
    """Sum over the attempts with a result; null if one of them does not say."""

    def total(of: OfTask) -> Value:
        heads = [head for head in of.heads.heads if head is not None and not head.outcome.skipped]
        values = [value(head) for head in heads]
        known = [each for each in values if each is not None]
        return sum(known) if heads and len(known) == len(values) else None

    return total


def _spend(head: ResultHead) -> Spend:
    return head.spend or Spend()


_TASK: Final[tuple[Column[OfTask], ...]] = (
    *_of_the_task(lambda of: of),
    Column("state", "text", lambda of: of.row.state),
    Column("has_error", "boolean", lambda of: of.row.has_error),
    Column("reason", "text", lambda of: of.row.reason or None),
    Column("attempt_values", "numbers", lambda of: [each.value for each in of.row.attempts]),
    Column("attempt_states", "texts", lambda of: [each.state for each in of.row.attempts]),
    Column("result_paths", "texts", lambda of: [of.path(each.attempt) for each in of.row.attempts]),
    Column("retry_count", "integer", _total(lambda head: head.retry_count)),
    Column("duration_s", "number", _total(lambda head: head.duration_s)),
    Column("input_tokens", "integer", _total(lambda head: _spend(head).input_tokens)),
    Column("output_tokens", "integer", _total(lambda head: _spend(head).output_tokens)),
    Column("cost_usd", "number", _total(lambda head: _spend(head).cost_usd)),
    Column("directory", "text", lambda of: of.path()),
)
