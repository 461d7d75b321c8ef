"""The heartbeat of a worker: keeps leases and messages alive, buries the dead, wakes the parked.

Touches Redis and the local disk only, never the share: a hanging share must not stop it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from redis import Redis

from agentcompass.runtime.ports import StopReason
from workers.broker.client import UNREACHABLE
from workers.broker.leases import Extended, Holding, RedisLeases
from workers.broker.parking import Parking
from workers.keeping import processes, slips
from workers.mends.visibility import keep_visible

logger = logging.getLogger(__name__)


class Heartbeat:
    """One tick of everything that must go on while attempts execute."""

    def __init__(
        self,
        client: Redis,
        leases: RedisLeases,
        directory: Path,
        beat_s: float,
        *,
        stop: Callable[[slips.Slip, StopReason], None],
        left_behind: Callable[[str], None],
    ) -> None:
        """Take what a tick needs.

        Args:
            stop: ends an execution whose lease was lost.
            left_behind: is told the token of each execution whose process died.
        """
        self._client = client
        self._leases = leases
        self._parking = Parking(client)
        self._directory = directory
        self._beat_s = beat_s
        self._stop = stop
        self._left_behind = left_behind
        self._next_beat_s = 0.0
        self._is_away = False

    def tick(self, now_s: float) -> None:
        """Do what is due.

        Args:
            now_s: `time.monotonic()`.
        """
        alive = self._bury_the_dead()
        try:
            if now_s >= self._next_beat_s:
                self._beat(alive)
                self._next_beat_s = now_s + self._beat_s
            self._parking.unpark()
        except UNREACHABLE:
            self._say_once("Redis does not answer; attempts go on")
        else:
            self._is_away = False

    def _beat(self, alive: list[slips.Slip]) -> None:
        keep_visible(self._client, time.time())
        holdings = [Holding(slip.lease, slip.token, slip.holder) for slip in alive]
        found = self._leases.extend(holdings)
        changed = [slip for slip in alive if found[slip.token] != "kept"]
        if changed:
            self._obey(changed, found)

    def _obey(self, changed: list[slips.Slip], found: Mapping[str, Extended]) -> None:
        """Stop what has lost its lease; of what has ended since we looked, keep no lease.

        An execution wipes its slip off and then releases its lease. If that comes between our look
        and our beat, the beat has claimed anew what nobody works on.
        """
        living = {slip.token for slip, _ in slips.read_all(self._directory)}
        for slip in changed:
            if found[slip.token] == "claimed_again" and slip.token not in living:
                self._leases.release_by_name(slip.lease, slip.token)
            elif found[slip.token] == "lost" and slip.token in living:
                logger.warning("lease of %s attempt %d is lost", slip.task_id, slip.attempt)
                self._stop(slip, "lease_lost")

    def _bury_the_dead(self) -> list[slips.Slip]:
        """Return the living; of the dead, end what they left, then let their attempts start anew."""
        alive: list[slips.Slip] = []
        for slip, _ in slips.read_all(self._directory):
            if processes.is_running(slip.owner, slip.owner_started):
                alive.append(slip)
            else:
                logger.warning("process of %s attempt %d is dead", slip.task_id, slip.attempt)
                processes.kill_labelled([slip.token])
                self._leases.release_by_name(slip.lease, slip.token)
                slips.remove(self._directory, slip.token)
                self._left_behind(slip.token)
        return alive

    def _say_once(self, text: str) -> None:
        if not self._is_away:
            self._is_away = True
            logger.warning(text)
