"""An attached coordinator: watches its runs, and leaves an honest state however it is ended.

Ctrl-C cancels, as `agentcompass cancel` does, and waits a little for what executes to stop.
SIGTERM ends local workers with the coordinator, so the run is `interrupted`; a run with a broker of
its own simply goes on without us.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from agentcompass.coordinator.control import cancel, interrupt
from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.ports import Queue
from agentcompass.coordinator.watching.watch import End, Tools, watch
from agentcompass.errors import AgentCompassError, BrokerUnreachable

IDLE_WITHIN_S: Final = 30.0
"""How long Ctrl-C waits for executing attempts to stop; the second one does not wait."""
_SHARE_OF_TIME: Final = 10


class Session(Protocol):
    """A broker, with workers of our own if it is embedded."""

    @property
    def queue(self) -> Queue:
        """The broker."""

    @property
    def is_embedded(self) -> bool:
        """True if its workers are ours and end with us."""

    def stop_workers(self) -> None:
        """Let local attempts finish for their grace period, then hand them back; idempotent."""

    def problem(self) -> str:
        """Return why no local worker serves any more; "" while they do, or if none is ours."""


class Stop(Protocol):
    """What signals have asked for."""

    @property
    def is_interrupt(self) -> bool:
        """True for Ctrl-C, False for SIGTERM, or if nobody asked."""

    @property
    def is_urgent(self) -> bool:
        """True after the second request: do not wait."""

    def is_asked(self) -> bool:
        """Return whether anybody asked."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What an attached coordinator works with."""

    session: Session
    tools: Tools
    stop: Stop
    write_partial: Callable[[Path], object]
    """Writes a report that says that it is partial."""


def attend(runs: Sequence[SealedRun], attached: Attached) -> dict[Path, End]:
    """Watch until all runs have ended or we are asked to go, and leave them in an honest state."""
    ends = watch(runs, attached.tools)
    left = [run for run in runs if ends[run.address.run_dir] == "left"]
    if left and attached.stop.is_interrupt:
        _cancel(left, attached)
    elif left and attached.session.is_embedded:
        _interrupt(left, attached)
    elif left:
        for run in left:
            attached.tools.observer.say(run, "the run goes on without this coordinator")
        return ends
    for run in runs:
        if ends[run.address.run_dir] in {"left", "stopped"}:
            _report_partially(run, attached)
    return ends


def _report_partially(run: SealedRun, attached: Attached) -> None:
    """One run whose results cannot be read does not cost the others their reports."""
    try:
        attached.write_partial(run.address.run_dir)
    except AgentCompassError as error:
        attached.tools.observer.say(run, f"there is no partial report: {error}")


def _cancel(runs: Sequence[SealedRun], attached: Attached) -> None:
    tools = attached.tools
    for run in runs:
        cancel(run.address.run_dir, reason="Ctrl-C", by=tools.by, at=tools.clock.now())
        tools.observer.say(run, "cancelled; waiting for what executes (Ctrl-C again: do not wait)")
    _until_idle(runs, attached)


def _interrupt(runs: Sequence[SealedRun], attached: Attached) -> None:
    """Record first: whatever kills us while the workers finish, the state on disk is true."""
    tools = attached.tools
    problem = attached.session.problem()
    for run in runs:
        interrupt(
            run.address.run_dir, reason=problem or "SIGTERM", by=tools.by, at=tools.clock.now()
        )
        tools.observer.say(run, problem or "interrupted; local attempts may finish for a moment")
    attached.session.stop_workers()


def _until_idle(runs: Sequence[SealedRun], attached: Attached) -> None:
    """Wait until no worker holds an attempt, in vain for at most `IDLE_WITHIN_S`."""
    clock, queue = attached.tools.clock, attached.tools.queue
    until_s = clock.monotonic() + IDLE_WITHIN_S
    try:
        for run in runs:
            queue.nudge(run.address)
        while clock.monotonic() < until_s and not attached.stop.is_urgent:
            began_s = clock.monotonic()
            if not any(queue.holdings(run.address).leased for run in runs):
                return
            took_s = clock.monotonic() - began_s
            clock.wait(max(0.2, _SHARE_OF_TIME * took_s))
    except BrokerUnreachable:
        return  # then nobody can tell us; workers find the record by themselves
