"""`agentcompass flower`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentcompass.cli.request_options import other_broker_option
from agentcompass.cli.wiring import need_broker


@click.command("flower")
@other_broker_option
@click.option("--address", default="127.0.0.1", show_default=True, help="Interface to listen on.")
@click.option("--port", type=click.IntRange(1, 65_535), default=5555, show_default=True)
@click.option(
    "--database",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep what was heard over a restart.",
)
def command(broker: str | None, address: str, port: int, database: Path | None) -> int:
    """Show workers and attempts in the browser.

    On other interfaces than the loopback it needs a password: set FLOWER_BASIC_AUTH=user:password.
    What it shows is what it heard; `status` and `report` read the run itself.
    """
    from workers.flower_main import FlowerOptions, run_flower

    url = need_broker(broker, os.environ)
    return run_flower(FlowerOptions(url, address=address, port=port, database=database))
