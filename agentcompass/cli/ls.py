"""`agentcompass ls`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

import click
from pydantic import JsonValue

from agentcompass.cli.output import emit
from agentcompass.coordinator.runs import find_runs
from agentcompass.errors import UsageError
from agentcompass.metrics.text import words
from agentcompass.store.overview import RunLine, overview

_HEAD: Final = ("started", "state", "attempts", "value", "size", "run")
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@click.command("ls")
@click.argument(
    "results_dir", metavar="[FOLDER]", default=Path("results"), type=click.Path(path_type=Path)
)
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Show only the newest N.")
@click.option("--size/--no-size", "with_size", default=True, help="Add up the files of each run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per run.")
def command(results_dir: Path, limit: int | None, *, with_size: bool, as_json: bool) -> int:
    """List the runs below a results folder, newest first.

    A value without a mark is the official one; `ref` marks a reference value, and every value stands
    with the tasks that it covers. Exits with 1 if a run cannot be read.
    """
    if not results_dir.is_dir():
        raise UsageError("no such results folder", where=str(results_dir))
    found = sorted(map(overview, find_runs(results_dir)), key=_age, reverse=True)
    shown = list(islice(found, limit))
    if with_size:
        shown = [overview(line.path, with_size=True) for line in shown]
    if as_json:
        for line in shown:
            emit(_fields(line))
    else:
        _print(_rows(shown, results_dir))
    return int(any(line.problem for line in shown))


def _age(line: RunLine) -> tuple[datetime, str]:
    return line.started_at or _NEVER, line.run_id


def _fields(line: RunLine) -> dict[str, JsonValue]:
    return {
        "path": str(line.path),
        "run_id": line.run_id,
        "state": line.state,
        "started_at": line.started_at.isoformat() if line.started_at else None,
        "benchmark": line.benchmark,
        "model": line.model,
        "attempts_done": line.attempts_done,
        "attempts_total": line.attempts_total,
        "series_id": line.series_id,
        "value": line.value,
        "reference_value": line.reference_value,
        "evaluated": line.evaluated,
        "tasks": line.tasks,
        "size_bytes": line.size_bytes,
        "problem": line.problem,
    }


def _rows(lines: Iterable[RunLine], folder: Path) -> list[Sequence[str]]:
    return [
        (
            line.started_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if line.started_at else "–",
            line.state,
            f"{_count(line.attempts_done)}/{_count(line.attempts_total)}",
            _value(line),
            _size(line.size_bytes),
            str(line.path.relative_to(folder)) + (f"  ({line.problem})" if line.problem else ""),
        )
        for line in lines
    ]


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _value(line: RunLine) -> str:
    if line.series_id is None:
        return words.NOTHING
    mark = ""
    value = line.value
    if value is None and line.reference_value is not None:
        value, mark = line.reference_value, "ref "
    return f"{mark}{words.number(value)} ({line.evaluated} of {line.tasks})"


def _size(size_bytes: int | None) -> str:
    if size_bytes is None:
        return words.NOTHING
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:.1f} TB"


def _print(rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        click.echo("no runs here", err=True)
        return
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    for row in (_HEAD, *rows):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())
