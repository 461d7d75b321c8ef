"""Watches runs until they end: looks, asks `decide`, obeys. Several watchdogs at once do no harm.

What is read how often: a change of `run_info.json` and of `control/` with every tick, which costs
two system calls; the whole directory seldom enough to take about a fiftieth of the time; the broker at most
once a minute, and always before the directory (see `decide.Look`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agentcompass.coordinator.control import pause
from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.ports import Holdings, PendingAttempt, Queue
from agentcompass.coordinator.serving import only_strangers
from agentcompass.coordinator.snapshot import Snapshot, breadth_first, look_at
from agentcompass.coordinator.spending.account import Account
from agentcompass.coordinator.spending.bounds import is_bounded, why_stop
from agentcompass.coordinator.watching import decide
from agentcompass.coordinator.watching.clock import Clock
from agentcompass.coordinator.watching.progress import Observer, Pace, Progress
from agentcompass.errors import AgentCompassError, BrokerUnreachable
from agentcompass.store import control, layout, run_info

End: TypeAlias = Literal["finished", "stopped", "left", "failed"]
"""`stopped`: paused or cancelled. `left`: we were asked to go. `failed`: it cannot be read."""

TICK_S: Final = 0.5
_LOOK_FOR_RUNS_S: Final = 60.0
_SHARE_OF_TIME: Final = 50
_FIRST_LOOK_S: Final = 0.2
"""So much of the first one counts at most: it has caches to fill."""
_STOPPING_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What watching needs of the world."""

    queue: Queue
    clock: Clock
    observer: Observer
    policy: decide.WatchPolicy
    finalize: Callable[[Path], object]
    """Completes a run whose attempts are all over; idempotent."""
    is_asked_to_leave: Callable[[], bool]
    by: str
    """Who acts, for the control records: user and host."""
    ended: Callable[[SealedRun], object] = lambda _run: None
    """Is told at once when one of several runs has ended."""


def watch(
    runs: Iterable[SealedRun], tools: Tools, more: Iterable[SealedRun] | None = None
) -> dict[Path, End]:
    """Watch until every run has ended, or until we are asked to leave; return how each ended.

    A run that cannot be read any more ends the watching of that run alone.

    Args:
        more: is asked again every minute for runs to watch, too; then only a request to leave
            ends the watching.
    """
    watched = {run.address.run_dir: _Watched(run, tools) for run in runs}
    next_more_s = tools.clock.monotonic()
    while not tools.is_asked_to_leave():
        if more is not None and tools.clock.monotonic() >= next_more_s:
            _join(more, watched, tools)
            next_more_s = tools.clock.monotonic() + _LOOK_FOR_RUNS_S
        for each in watched.values():
            if each.end is None:
                each.tick()
        if more is None and all(each.end is not None for each in watched.values()):
            break
        tools.clock.wait(TICK_S)
    return {run_dir: each.end or "left" for run_dir, each in watched.items()}


def _join(more: Iterable[SealedRun], watched: dict[Path, _Watched], tools: Tools) -> None:
    """Begin to watch what is new, and what goes on after it had ended."""
    for run in more:
        known = watched.get(run.address.run_dir)
        if known is None or known.end in {"finished", "stopped"}:
            watched[run.address.run_dir] = _Watched(run, tools)


class _Watched:
    """One run: when to look again, and what has been said already."""

    def __init__(self, run: SealedRun, tools: Tools) -> None:
        self.run = run
        self.end: End | None = None
        self._tools = tools
        self._dog = decide.Watchdog(tools.policy)
        self._pace: Pace | None = None
        self._said: set[str] = set()
        self._account = Account(run.address.run_dir, run.info)
        self._seen: tuple[object, ...] = ()
        self._took_s = _FIRST_LOOK_S
        self._next_scan_s = tools.clock.monotonic()
        self._next_broker_s = self._next_scan_s + tools.policy.lease_s
        """Not at once: a message that was sent a moment ago may not be anywhere yet."""

    def tick(self) -> None:
        """Look if it is time or if something changed."""
        now_s = self._tools.clock.monotonic()
        try:
            seen = self._marks()
            if now_s >= self._next_scan_s or now_s >= self._next_broker_s or seen != self._seen:
                self._seen = seen
                self._look(now_s)
        except BrokerUnreachable as error:
            self._say_away(error)
        except AgentCompassError as error:
            self.end = "failed"
            self._say("failed", str(error))
        except OSError as error:  # a share that is away for a moment; nothing is decided
            self._say("share", f"the run cannot be read now: {error}")
        if self.end is not None:
            self._tools.ended(self.run)

    def _look(self, now_s: float) -> None:
        holdings = self._holdings(now_s)
        seen = look_at(self.run.address.run_dir, self.run.info)
        took_s = self._tools.clock.monotonic() - now_s
        # The shorter of two: one during which the machine stood still says nothing about the next.
        price_s, self._took_s = min(took_s, self._took_s), took_s
        self._next_scan_s = now_s + max(2 * TICK_S, _SHARE_OF_TIME * price_s)
        self._show(seen, now_s)
        for command in self._dog.handle(self._as_look(seen, now_s, holdings)):
            self._obey(command, seen)
        if not seen.left:
            self._next_scan_s = now_s + TICK_S

    def _holdings(self, now_s: float) -> Holdings | None:
        """Ask the broker if it is time; faster once the run is closed, to see the last ones end."""
        if now_s < self._next_broker_s:
            return None
        policy = self._tools.policy
        is_open = control.legs(self.run.address.run_dir).state == "open"
        self._next_broker_s = now_s + (policy.look_every_s if is_open else _STOPPING_LOOK_S)
        try:
            found = self._tools.queue.holdings(self.run.address)
        except BrokerUnreachable as error:
            self._say_away(error)
            return None
        if "broker" in self._said:
            self._said.remove("broker")
            self._say("", "the broker answers again")
        if not found.known:  # it has forgotten everything, so asking it is cheap
            self._next_broker_s = min(self._next_broker_s, now_s + policy.lease_s)
        return found

    def _as_look(self, seen: Snapshot, now_s: float, holdings: Holdings | None) -> decide.Look:
        is_final = False
        if not seen.left:
            status = run_info.refresh(self.run.address.run_dir, seen.found).status
            is_final = status in {"completed", "failed"}
        if seen.legs.state != "open":
            self._next_broker_s = min(self._next_broker_s, now_s + _STOPPING_LOOK_S)
        return decide.Look(
            at_s=now_s,
            is_open=seen.legs.state == "open",
            unfinished=seen.keys,
            is_final=is_final,
            holdings=holdings,
            failed_tasks=seen.failed_tasks,
            max_failed_tasks=seen.execution.max_failed_tasks,
            why_stop=self._why_stop(seen),
        )

    def _why_stop(self, seen: Snapshot) -> str:
        """Read what was published since the last look, if anything is bounded by it."""
        if not seen.left or not is_bounded(seen.execution):
            return ""
        return why_stop(self._account.spent(seen.found, self._tools.clock.now()), seen.execution)

    def _obey(self, command: decide.Command, seen: Snapshot) -> None:
        queue, run = self._tools.queue, self.run.address
        match command:
            case decide.Finished():
                self.end = "finished"
            case decide.Stopped():
                self.end = "stopped"
            case decide.Pause(reason):
                pause(run.run_dir, reason=reason, by=self._tools.by, at=self._tools.clock.now())
                queue.nudge(run)
                self._say(f"pause {seen.legs.current}", f"paused: {reason}")
            case decide.Resend(keys):
                if only_strangers(queue.workers(run.queue), run.root):
                    self._say("strangers", f"only workers of other folders serve {run.queue!r}; "
                              "attempts that were lost wait for one of this folder")  # fmt: skip
                    return
                self._say("", f"{len(keys)} attempts were lost; their messages are sent again")
                queue.resend(run, seen.legs.current, _named(seen, set(keys)))
            case decide.Finalize():
                self._finalize(seen)

    def _finalize(self, seen: Snapshot) -> None:
        """Complete the run ourselves, or ask a worker if a plug-in that it needs is not here."""
        try:
            self._tools.finalize(self.run.address.run_dir)
        except AgentCompassError as error:
            self._say("finalize", f"cannot finalize here, so a worker is asked to: {error}")
            self._tools.queue.finalize(self.run.address, seen.legs.current)

    def _show(self, seen: Snapshot, now_s: float) -> None:
        pace = self._pace = self._pace or Pace(seen.done, now_s)
        eta_s = pace.eta_s(seen.done, seen.total, now_s)
        progress = Progress(seen.done, seen.total, seen.failed_tasks, eta_s)
        self._tools.observer.progress(self.run, progress)

    def _say(self, cause: str, message: str) -> None:
        """Say something; with a cause, once per cause."""
        if cause and cause in self._said:
            return
        self._said.add(cause)
        self._tools.observer.say(self.run, message)

    def _say_away(self, error: BrokerUnreachable) -> None:
        reason = error.what.rstrip(".")
        self._say("broker", f"{reason}; what executes goes on, and so do we")

    def _marks(self) -> tuple[object, ...]:
        """Return what changes when the run is finalized, or when somebody decides about it."""
        run_dir = self.run.address.run_dir
        stat = (run_dir / layout.RUN_INFO).stat()
        return stat.st_ino, stat.st_mtime_ns, control.legs(run_dir)


def _named(seen: Snapshot, keys: set[tuple[int, int]]) -> list[PendingAttempt]:
    return [attempt for attempt in breadth_first(seen.work) if attempt.key in keys]
