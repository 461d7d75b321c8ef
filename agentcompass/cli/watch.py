"""`agentcompass watch`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentcompass.cli.console import Console
from agentcompass.cli.request_options import other_broker_option
from agentcompass.cli.wiring import Stops, by, need_broker, open_queue, watch_policy
from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.report import complete, report
from agentcompass.coordinator.runs import LiveRuns, opened
from agentcompass.coordinator.watching.watch import Tools, watch
from agentcompass.errors import AgentCompassError, UsageError
from agentcompass.store import control


@click.command("watch")
@click.argument("run_dirs", metavar="[RUN...]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--results-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Watch every run below this folder, for ever; for a service.",
)
@other_broker_option
def command(run_dirs: tuple[Path, ...], results_dir: Path | None, broker: str | None) -> int:
    """Find lost attempts of runs and complete their reports.

    Sends the messages of attempts again that nobody takes care of any more, and finalizes runs whose
    callback was lost. Any number of watchdogs do no harm. Ends when all named runs have ended.
    """
    if bool(run_dirs) == (results_dir is not None):
        raise UsageError("name runs, or a folder with --results-dir, and not both")
    url = need_broker(broker, os.environ)
    with Stops() as stops:
        tools = Tools(
            queue=open_queue(url),
            clock=stops,
            observer=Console(several=len(run_dirs) != 1),
            policy=watch_policy(os.environ),
            finalize=complete,
            is_asked_to_leave=stops.is_asked,
            by=by(),
            ended=_report_if_stopped,
        )
        more = LiveRuns(results_dir) if results_dir is not None else None
        ends = watch(map(opened, run_dirs), tools, more)
    is_service = more is not None
    return 0 if is_service or all(end == "finished" for end in ends.values()) else 3


def _report_if_stopped(run: SealedRun) -> None:
    """Say what there is of a run that was paused or cancelled, as an attached coordinator does."""
    run_dir = run.address.run_dir
    try:
        if control.legs(run_dir).state != "open":
            report(run_dir)
    except (AgentCompassError, OSError) as error:  # of one run; the others are watched on
        click.echo(f"{run_dir.name}: no partial report: {error}", err=True)
