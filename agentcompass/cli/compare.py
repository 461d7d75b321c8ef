"""`agentcompass compare`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from agentcompass.cli.output import emit
from agentcompass.coordinator.reading.comparison import Compared, compare_runs
from agentcompass.errors import UsageError
from agentcompass.metrics.text.compare_part import comparison_markdown, comparison_text

_COLUMNS: Final = ("first_run", "second_run", "series_id", "task_id", "first", "second", "state")


@click.command("compare")
@click.argument(
    "run_dirs", metavar="RUN_A RUN_B...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--series", "series_id", metavar="ID", help="Such as score.avg@3. [default: headline]"
)
@click.option(
    "--intersection", is_flag=True, help="Compare on the common tasks if the task sets differ."
)
@click.option(
    "--json", "style", flag_value="json", help="Print one JSON object with every number and list."
)
@click.option("--csv", "style", flag_value="csv", help="Print one row for each pair of tasks.")
@click.option("--markdown", "style", flag_value="markdown", help="Print Markdown.")
def command(
    run_dirs: tuple[Path, ...], series_id: str | None, *, intersection: bool, style: str | None
) -> int:
    """Compare runs with the first one, task by task.

    The difference is over the tasks that have a value in both runs, each with the same weight, with
    a paired 95 % interval and a test. Other benchmarks, attempt plans and task sets are refused.
    Runs of other writers can be compared, too.
    """
    if len(run_dirs) < 2:
        raise UsageError("one run has nothing to be compared with", hint="name two runs or more")
    compared = compare_runs(run_dirs, series_id=series_id, on_intersection=intersection)
    shown = (compared.found, compared.runs, compared.warnings)
    match style:
        case "json":
            emit(
                {
                    "runs": [run.model_dump(mode="json") for run in compared.runs],
                    "comparisons": [each.model_dump(mode="json") for each in compared.found],
                    "warnings": list(compared.warnings),
                }
            )
        case "csv":
            for line in _csv(compared):
                click.echo(line, nl=False)
        case "markdown":
            click.echo(comparison_markdown(*shown), nl=False)
        case _:
            click.echo(comparison_text(*shown), nl=False)
    if style in {"json", "csv"}:
        for warning in compared.warnings:
            click.echo(f"beware: {warning}", err=True)
    return 0


def _csv(compared: Compared) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    first = compared.found[0]
    for name, pair in compared.pairs():
        writer.writerow(
            (first.first, name, first.series_id, pair.task_id, pair.first, pair.second, pair.state)
        )
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()
