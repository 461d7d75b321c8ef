"""What `run` and `resume` share: dispatch, and attend to the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import click

from agentcompass.cli.console import Console
from agentcompass.cli.run_events import conclude, detached
from agentcompass.cli.sessions import OwnBroker, ToServe, embedded
from agentcompass.cli.wiring import Stops, by, watch_policy
from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.ports import Queue
from agentcompass.coordinator.report import complete, report
from agentcompass.coordinator.serving import unserved
from agentcompass.coordinator.snapshot import Keys, Work, breadth_first
from agentcompass.coordinator.watching.attach import Attached, Session, attend
from agentcompass.coordinator.watching.watch import Tools
from agentcompass.models.request import RuntimeSettings


@dataclass(frozen=True, slots=True)
class Going:
    """A run that is to be dispatched and attended."""

    run: SealedRun
    leg: int
    work: Work
    runtime: RuntimeSettings
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str = ""
    """Of its request in a launch."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How the command was asked to behave."""

    queue: Queue | None
    """The user's own broker; None means an embedded one."""
    as_json: bool
    detach: bool = False
    log_level: str = "WARNING"


def dispatch(queue: Queue, going: Going) -> None:
    """Send one chord with the work of a leg; the directory is durable already."""
    queue.dispatch(going.run.address, going.leg, breadth_first(going.work), len(Keys(going.work)))


def carry_out(going: Sequence[Going], manner: Manner) -> int:
    """Dispatch runs, attend them to their end, print their reports, and return the exit code."""
    see_through(going, manner)
    if manner.detach:
        return 0
    return max(conclude(each.run.address.run_dir, as_json=manner.as_json) for each in going)


def see_through(
    going: Sequence[Going], manner: Manner, ended: Callable[[SealedRun], object] = lambda _run: None
) -> None:
    """Dispatch runs and attend them to their end; or only dispatch them, if we are to leave.

    Args:
        ended: is told of each run as soon as it has ended.
    """
    names = {each.run.address.run_dir: each.name for each in going if each.name}
    console = Console(several=len(going) > 1 or bool(names), names=names)
    with Stops() as stops, _session(going, manner) as session:
        if not session.is_embedded:
            _tell_unserved(session.queue, going)
        for each in going:
            dispatch(session.queue, each)
        if manner.detach:
            for each in going:
                detached(each.run.address.run_dir, as_json=manner.as_json, name=each.name)
            return
        tools = Tools(
            queue=session.queue,
            clock=stops,
            observer=console,
            policy=watch_policy(os.environ),
            finalize=complete,
            is_asked_to_leave=lambda: stops.is_asked() or bool(session.problem()),
            by=by(),
            ended=ended,
        )
        attend([each.run for each in going], Attached(session, tools, stops, report))
    console.clear()


def _tell_unserved(queue: Queue, going: Sequence[Going]) -> None:
    """Say it if nobody is there to take what is sent: it waits, and so do we."""
    lanes = {each.run.address.queue: each.run.address.root.path for each in going}
    for lane, results_dir in lanes.items():
        if text := unserved(queue, lane, results_dir):
            click.echo(text, err=True)


@contextmanager
def _session(going: Sequence[Going], manner: Manner) -> Iterator[Session]:
    if manner.queue is not None:
        yield OwnBroker(manner.queue)
        return
    runs = [ToServe(each.run.address, each.runtime) for each in going]
    secrets = {name: value for each in going for name, value in each.secrets.items()}
    with embedded(runs, secrets, log_level=manner.log_level) as session:
        yield session
