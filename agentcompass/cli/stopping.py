"""What `cancel` and `pause` share: record, then tell the workers if a broker is at hand."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentcompass.cli.wiring import broker_of, open_queue
from agentcompass.coordinator.planning.start import address_of, root_of
from agentcompass.errors import AgentCompassError
from agentcompass.store import sealed


def nudge(run_dir: Path, broker: str | None) -> None:
    """Make workers notice now what they would notice by themselves in a few seconds."""
    url = broker_of(broker, os.environ)
    if url is None:
        return
    try:
        info = sealed.load_sealed(run_dir)
        open_queue(url).nudge(address_of(root_of(run_dir), run_dir.resolve(), info.request))
    except AgentCompassError as error:
        click.echo(f"recorded; workers could not be told at once: {error}", err=True)
