"""`export`: the attempts or the tasks of any run as rows, for pandas, DuckDB and spreadsheets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agentcompass.coordinator.reading import parquet, text_rows
from agentcompass.coordinator.reading.columns import (
    OfAttempt,
    OfTask,
    attempt_columns,
    task_columns,
)
from agentcompass.coordinator.reading.run import ReadableRun, open_run
from agentcompass.coordinator.reading.table import Table
from agentcompass.errors import UsageError
from agentcompass.metrics.per_task.rows import task_row
from agentcompass.metrics.per_task.tasks import TaskReducer
from agentcompass.store import atomic

What: TypeAlias = Literal["attempts", "tasks"]

FORMATS: Final[Mapping[str, Callable[[Table], Iterator[bytes]]]] = {
    "csv": text_rows.csv_lines,
    "jsonl": text_rows.json_lines,
    "parquet": parquet.row_groups,
}


def format_of(asked: str | None, output: Path | None) -> str:
    """Return the format that was asked for, by name or by the name of the file.

    Raises:
        UsageError: by neither.
    """
    found = asked or (output.suffix.removeprefix(".").lower() if output is not None else "")
    if found not in FORMATS:
        raise UsageError("in which format?", where="--format", hint=f"one of {', '.join(FORMATS)}")
    return found


def exported(run_dir: Path, what: What, kind: str) -> Iterator[bytes]:
    """Yield the bytes of an export; rows are made one at a time, in the order of the run.

    Raises:
        UsageError: the format needs a package that is not installed.
        RecordCorrupt: after the last row, with every result that could not be read and was left out.
        And what `open_run` raises, at once.
    """
    return FORMATS[kind](_table(open_run(run_dir), what))


def save(path: Path, chunks: Iterable[bytes]) -> None:
    """Put an export at `path`, whole or not at all."""
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", where="--output")
    atomic.replace_stream(path.absolute(), chunks)


def _table(run: ReadableRun, what: What) -> Table:
    reducer = TaskReducer(run.contract, run.attempts)
    if what == "tasks":
        columns = task_columns([plan.series_id for plan in reducer.series])
        return Table.of(columns, _tasks(run, reducer))
    return Table.of(attempt_columns(run), _attempts(run, reducer))


def _tasks(run: ReadableRun, reducer: TaskReducer) -> Iterator[OfTask]:
    for task in run.heads():
        yield OfTask(run, task, task_row(reducer, task.outcomes))


def _attempts(run: ReadableRun, reducer: TaskReducer) -> Iterator[OfAttempt]:
    for task in _tasks(run, reducer):
        for row, head in zip(task.row.attempts, task.heads.heads, strict=True):
            yield OfAttempt(task, row, head)
