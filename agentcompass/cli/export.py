"""`agentcompass export`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agentcompass.coordinator.reading.export import FORMATS, What, exported, format_of, save
from agentcompass.errors import UsageError
from agentcompass.store.export.copy import FORMAT as COPY
from agentcompass.store.export.copy import write_copy


@click.command("export")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "asked",
    type=click.Choice([*FORMATS, COPY]),
    help=f"[default: by the name of the file] {COPY} writes a copy of the whole run, to a new "
    "folder, as that version would have left it.",
)
@click.option(
    "--what",
    type=click.Choice(["attempts", "tasks"]),
    default="attempts",
    show_default=True,
    help="attempts: one row per planned attempt. tasks: one row per task, with its value in every "
    "series of the report.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Written whole or not at all. [default: standard output]",
)
def command(run_dir: Path, asked: str | None, what: What, output: Path | None) -> int:
    """Write a run's attempts or tasks as rows of a table.

    The columns are documented in docs/metrics.md. A run that is not over can be exported too: its
    missing attempts are rows that say so. Parquet needs the extra `parquet`.
    """
    if asked == COPY:
        return _copy(run_dir, output)
    kind = format_of(asked, output)
    chunks = exported(run_dir, what, kind)
    if output is not None:
        save(output, chunks)
        return 0
    if kind == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is not for a terminal", hint="name a file with -o")
    for chunk in chunks:
        click.echo(chunk, nl=False)
    return 0


def _copy(run_dir: Path, target: Path | None) -> int:
    if target is None:
        raise UsageError("a copy of a run is a folder", hint="name a new one with -o")
    count = write_copy(run_dir, target)
    click.echo(f"{target}: {count} tasks")
    return 0
