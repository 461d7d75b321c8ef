"""`agentcompass pause`."""

from __future__ import annotations

from pathlib import Path

import click

from agentcompass.cli.request_options import other_broker_option
from agentcompass.cli.stopping import nudge
from agentcompass.cli.wiring import by, now
from agentcompass.coordinator.control import pause, stoppable


@click.command("pause")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--reason", default="", help="Why; recorded in the run.")
@other_broker_option
def command(run_dir: Path, reason: str, broker: str | None) -> int:
    """Hand out nothing more of a run until it is resumed; what executes goes on to its end."""
    if not stoppable(run_dir):
        click.echo("nothing to do: every attempt is over; nothing was recorded")
        return 0
    pause(run_dir, reason=reason, by=by(), at=now())
    nudge(run_dir, broker)
    click.echo(f"paused {run_dir}\ngo on with: agentcompass resume {run_dir}")
    return 0
