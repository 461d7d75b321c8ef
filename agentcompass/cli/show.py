"""`agentcompass show`."""

from __future__ import annotations

from pathlib import Path

import click

from agentcompass.coordinator.reading.run import open_run
from agentcompass.coordinator.reading.shown import (
    attempt_lines,
    find_task,
    load_attempt,
    run_lines,
    task_lines,
)


@click.command("show")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("task_id", metavar="[TASK", required=False)
@click.argument("attempt", metavar="[ATTEMPT]]", required=False, type=click.IntRange(min=1))
@click.option("--full", is_flag=True, help="Cut no text short.")
@click.option("--json", "as_json", is_flag=True, help="Print an attempt as result.json has it.")
def command(
    run_dir: Path, task_id: str | None, attempt: int | None, *, full: bool, as_json: bool
) -> int:
    """Show a run, a task or one attempt with its trajectory.

    Works on runs of other writers, too. What would steer a terminal is replaced: the text comes from
    models.
    """
    run = open_run(run_dir)
    if task_id is None:
        lines = run_lines(run)
    else:
        task = find_task(run, task_id)
        if attempt is None:
            lines = task_lines(task)
        else:
            task, result = load_attempt(run, task, attempt)
            if as_json:
                click.echo(result.model_dump_json())
                return 0
            lines = attempt_lines(task, attempt, result, full=full)
    for line in lines:
        click.echo(line)
    return 0
