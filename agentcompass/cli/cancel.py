"""`agentcompass cancel`."""

from __future__ import annotations

from pathlib import Path

import click

from agentcompass.cli.request_options import other_broker_option
from agentcompass.cli.stopping import nudge
from agentcompass.cli.wiring import by, now
from agentcompass.coordinator.control import cancel, refs_of, stoppable
from agentcompass.coordinator.report import report


@click.command("cancel")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("task_id", metavar="[TASK", required=False)
@click.argument("attempt", metavar="[ATTEMPT]]", type=int, required=False)
@click.option("--reason", default="", help="Why; recorded in the run.")
@other_broker_option
def command(
    run_dir: Path, task_id: str | None, attempt: int | None, reason: str, broker: str | None
) -> int:
    """Stop a run, a task or one attempt; keep every result.

    What is queued is not started, what executes is stopped. A cancelled run can be resumed; an
    attempt that was cancelled by name stays unavailable unless it is run again with
    `resume --rerun TASK`.
    """
    named = refs_of(run_dir, task_id, attempt) if task_id is not None else ()
    left = stoppable(run_dir, named)
    if not left:
        what = "each of these attempts" if named else "every attempt"
        click.echo(f"nothing to do: {what} is over; nothing was recorded")
        return 0
    attempts = left if named else ()
    info = cancel(run_dir, attempts=attempts, reason=reason, by=by(), at=now())
    nudge(run_dir, broker)
    if attempts:
        click.echo(f"cancelled {len(attempts)} of {info.attempt_count} attempts of {run_dir}")
        return 0
    report(run_dir)
    click.echo(f"cancelled {run_dir}\ngo on with: agentcompass resume {run_dir}")
    return 0
