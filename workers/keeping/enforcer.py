"""Ends executions from outside: cancelled ones, ones past their hard deadline, and at shutdown.

First a polite request, which the executing code gets as an exception; after `stop_s` SIGKILL. The
reason is on disk before the kill, so that the next delivery records it instead of executing again.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis

from agentcompass.errors import AgentCompassError
from agentcompass.runtime.ports import StopReason
from agentcompass.store import control, marks
from workers.broker.client import UNREACHABLE
from workers.keeping import processes, slips
from workers.keeping.keeper import SlipKeeper
from workers.settings import Clocks

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Asked:
    reason: StopReason
    at_s: float


@dataclass(slots=True)
class _Run:
    """What was last seen of a run's control records."""

    nudges: object = None
    looked_at_s: float = float("-inf")


@dataclass(slots=True)
class Shutdown:
    """Set by the worker's signal handler: when it began, and how long attempts may go on."""

    began_s: float | None = None
    grace_s: float = field(default=0.0)


class Enforcer:
    """Looks at the share, so it has a thread of its own: a share that hangs delays only this."""

    def __init__(
        self,
        client: Redis,
        keeper: SlipKeeper,
        directory: Path,
        clocks: Clocks,
        shutdown: Shutdown,
    ) -> None:
        self._client = client
        self._keeper = keeper
        self._directory = directory
        self._clocks = clocks
        self._shutdown = shutdown
        self._asked: dict[str, _Asked] = {}
        self._runs: dict[str, _Run] = {}
        self._killed: set[str] = set()

    def tick(self, now_s: float) -> None:
        """Look at every execution once; `now_s` is `time.monotonic()`."""
        found = list(slips.read_all(self._directory))
        tokens = {slip.token for slip, _ in found}
        self._asked = {token: asked for token, asked in self._asked.items() if token in tokens}
        self._killed &= tokens
        self._stop_the_cancelled([slip for slip, _ in found], now_s)
        for slip, deadline in found:
            if deadline is not None and now_s >= deadline.at_s:
                self._end_late(slip, deadline)
            if self._is_shutting_down(now_s):
                self._ask(slip, "handed_back", now_s)
            self._insist(slip, now_s)

    def stop(self, slip: slips.Slip, reason: StopReason) -> None:
        """Ask an execution to end, wherever it runs."""
        if slip.owner == os.getpid():
            self._keeper.request_stop(slip.token, reason)
            return
        slips.leave_stop(self._directory, slip.token, reason)
        if processes.is_running(slip.owner, slip.owner_started):
            os.kill(slip.owner, signal.SIGUSR2)

    def _is_shutting_down(self, now_s: float) -> bool:
        began_s = self._shutdown.began_s
        return began_s is not None and now_s >= began_s + self._shutdown.grace_s

    def _stop_the_cancelled(self, found: list[slips.Slip], now_s: float) -> None:
        by_run: dict[str, list[slips.Slip]] = {}
        for slip in found:
            by_run.setdefault(slip.run_dir, []).append(slip)
        self._runs = {run_dir: self._runs.get(run_dir, _Run()) for run_dir in by_run}
        nudges = self._nudges({run_dir: own[0].lease for run_dir, own in by_run.items()})
        for run_dir, own in by_run.items():
            run = self._runs[run_dir]
            is_due = now_s >= run.looked_at_s + self._clocks.control_s
            if is_due or nudges.get(run_dir) != run.nudges:
                run.nudges, run.looked_at_s = nudges.get(run_dir, run.nudges), now_s
                self._stop_closed(Path(run_dir), own, now_s)

    def _nudges(self, leases: dict[str, str]) -> dict[str, object]:
        names = [lease.split("lease:")[0] + "nudges" for lease in leases.values()]
        try:
            values: Sequence[object] = self._client.mget(names) if names else []
        except UNREACHABLE:
            return {run_dir: self._runs[run_dir].nudges for run_dir in leases}
        return dict(zip(leases, values, strict=True))

    def _stop_closed(self, run_dir: Path, own: list[slips.Slip], now_s: float) -> None:
        try:
            legs = control.legs(run_dir)
        except (OSError, AgentCompassError) as error:
            logger.warning("control records of %s cannot be read: %s", run_dir.name, error)
            return
        for slip in own:
            is_cancelled = legs.state == "cancelled" and not legs.is_open(slip.leg)
            if is_cancelled or legs.is_closed(slip.task_id, slip.attempt):
                self._ask(slip, "cancelled", now_s)

    def _ask(self, slip: slips.Slip, reason: StopReason, now_s: float) -> None:
        if slip.token not in self._asked:
            self._asked[slip.token] = _Asked(reason, now_s)
            self.stop(slip, reason)

    def _insist(self, slip: slips.Slip, now_s: float) -> None:
        asked = self._asked.get(slip.token)
        if asked is None or now_s < asked.at_s + self._clocks.stop_s or not self._may_kill(slip):
            return
        try:
            marks.close(Path(slip.attempt_dir), slip.token, asked.reason)
        except (OSError, AgentCompassError) as error:
            logger.warning("start mark of %s cannot be closed: %s", slip.task_id, error)
        self._kill(slip, asked.reason)

    def _end_late(self, slip: slips.Slip, deadline: slips.Deadline) -> None:
        if not self._may_kill(slip):
            return
        message = "the attempt did not end at its deadline and was killed"
        try:
            marks.leave_kill_note(Path(slip.attempt_dir), slip.token, deadline.reason, message)
        except (OSError, AgentCompassError) as error:
            logger.warning("kill note of %s cannot be written: %s", slip.task_id, error)
        self._kill(slip, deadline.reason)

    def _may_kill(self, slip: slips.Slip) -> bool:
        """Never ourselves: in the threads pool the executing process is this one."""
        return slip.pid != os.getpid() and slip.token not in self._killed

    def _kill(self, slip: slips.Slip, why: str) -> None:
        """Kill, unless the execution has ended while we wrote: its process works for another now."""
        if not slips.is_open(self._directory, slip.token):
            return
        logger.warning("killing %s attempt %d: %s", slip.task_id, slip.attempt, why)
        self._killed.add(slip.token)
        processes.kill(slip.pid, slip.pid_started)
        processes.kill_labelled([slip.token])
