"""Asks the brokers that runs recorded whether somebody still works on them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentcompass.cli.wiring import open_queue
from agentcompass.coordinator.planning.start import EMBEDDED
from agentcompass.coordinator.ports import RunAddress
from agentcompass.coordinator.reuse.choose import Activity, Probe
from agentcompass.coordinator.runs import opened
from agentcompass.errors import AgentCompassError
from agentcompass.models.request import MASK
from agentcompass.runtime.redact import mask_urls
from agentcompass.store import control, disk

BROKER_FILE: Final = ".broker"
"""The lock of a run's embedded broker; see `workers.embedded`, which brings Celery along."""


def probe_with(given: str | None) -> Probe:
    """Return what asks a recorded broker; one with credentials is asked only if it is `given`."""

    def ask(run_dir: Path, recorded: str) -> Activity:
        if recorded == EMBEDDED or not (recorded or given):
            return _embedded(run_dir)
        is_given = given is not None and recorded in {"", mask_urls(given)}
        url = given if given is not None and is_given else recorded
        if MASK in url:
            why = f"its broker {recorded} needs credentials; give them with --broker"
            return Activity("unknown", why)
        return _asked(run_dir, url)

    return ask


def _embedded(run_dir: Path) -> Activity:
    try:
        is_up = disk.is_locked(run_dir / BROKER_FILE)
    except OSError as error:
        return Activity("unknown", f"its embedded broker's lock cannot be read ({error.strerror})")
    return Activity("live", "its embedded broker is up") if is_up else Activity("idle")


def _asked(run_dir: Path, url: str) -> Activity:
    try:
        address: RunAddress = opened(run_dir).address
    except AgentCompassError:
        return Activity("idle")  # in no results folder of ours: no worker can find it
    try:
        held = open_queue(url).holdings(address)
    except AgentCompassError as error:
        return Activity("unknown", " ".join(str(error).split()))
    # What is queued of a paused run starts nowhere; what executes comes to its end.
    is_paused = control.legs(run_dir).state == "paused"
    count = len(held.leased if is_paused else held.all)
    if not count:
        return Activity("idle")
    return Activity("live", f"its broker {mask_urls(url)} holds {count} of its attempts")
