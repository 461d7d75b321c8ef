"""Leases in Redis: who executes which attempt. They save money and prove nothing.

One key per attempt with a time to live. Its value is JSON, token first. The keeper extends it from
outside the executing code, and claims it again when Redis lost its memory.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from redis import Redis

from agentcompass.runtime.ports import LeaseHeld, LeaseKey, LeasesUnreachable, LeaseTaken
from workers import clock
from workers.broker.client import UNREACHABLE
from workers.broker.keys import PARKED, lease_key, waiters_key

logger = logging.getLogger(__name__)

Extended = Literal["kept", "claimed_again", "lost"]
_EXTENDED: Final[tuple[Extended, ...]] = ("lost", "kept", "claimed_again")

_OURS: Final = "string.find(value, '{\"token\":\"' .. ARGV[1] .. '\"', 1, true) == 1"
_HOST: Final = socket.gethostname()
_EXTEND: Final = f"""
local value = redis.call('GET', KEYS[1])
if not value then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 2 end
if {_OURS} then redis.call('PEXPIRE', KEYS[1], ARGV[3]) return 1 end
return 0
"""
# Whoever waits for this attempt is due at once, not only when its lease period has passed.
_RELEASE: Final = f"""
local value = redis.call('GET', KEYS[1])
if not value or not ({_OURS}) then return 0 end
redis.call('DEL', KEYS[1])
for _, id in ipairs(redis.call('SMEMBERS', KEYS[2])) do redis.call('ZADD', KEYS[3], 'XX', 0, id) end
return 1
"""


@dataclass(frozen=True, slots=True)
class Holding:
    """One lease that a keeper keeps alive."""

    key: str
    token: str
    value: str


def lease_value(token: str, worker: str, since_s: float, pid: int) -> str:
    """Return what the key holds; the token comes first, the scripts compare only that."""
    holder = {"token": token, "worker": worker, "since": since_s, "host": _HOST, "pid": pid}
    return json.dumps(holder, separators=(",", ":"))


class RedisLeases:
    """Implements `agentcompass.runtime.ports.Leases`; may be used from any thread or child."""

    def __init__(
        self,
        client: Redis,
        ttl_s: float,
        *,
        patience_s: float = 30.0,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = clock.sleep,
    ) -> None:
        self._client = client
        self._ttl_ms = int(ttl_s * 1000)
        self._patience_s = patience_s
        self._now = now
        self._sleep = sleep
        self._taken_s: dict[str, float] = {}
        """Token -> when its lease was asked for; only of this process, only while it is held."""
        self._extend = client.register_script(_EXTEND)
        self._release = client.register_script(_RELEASE)

    def take(self, key: LeaseKey, token: str, *, worker: str) -> LeaseTaken | LeaseHeld:
        """Claim the attempt for this token. Waits out an outage of up to `patience_s`."""
        since_s, name = self._now(), lease_key(key)
        value = lease_value(token, worker, since_s, os.getpid())
        while True:
            try:
                held = self._try(name, token, value)
            except UNREACHABLE as error:
                if self._now() >= since_s + self._patience_s:
                    raise LeasesUnreachable(type(error).__name__) from error
                self._sleep(0.5)
                continue
            if held is None:
                self._taken_s[token] = since_s
            return held or LeaseTaken()

    def release(self, key: LeaseKey, token: str) -> None:
        """Give the lease up if this token holds it; its parked duplicates are due at once."""
        self._taken_s.pop(token, None)
        self.release_by_name(lease_key(key), token)

    def release_by_name(self, lease: str, token: str) -> None:
        """Do the same for a lease whose Redis key a dead holder left behind."""
        try:
            self._release(keys=[lease, waiters_key(lease), PARKED], args=[token])
        except UNREACHABLE:
            logger.warning("a lease could not be released; it ends by itself")

    def is_lost(self, key: LeaseKey, token: str) -> bool:
        """Return True only if another token is seen; not asked while the lease is young.

        Nobody else can have taken what has not had the time to end, so that an attempt of seconds
        saves the question. (If Redis lost its memory, somebody can: publication decides then.)
        """
        if self._now() < self._taken_s.get(token, 0.0) + self._ttl_ms / 2000:
            return False
        try:
            value = self._client.get(lease_key(key))
        except UNREACHABLE:
            return False
        return value is not None and _parsed(value).get("token") != token

    def extend(self, holdings: Sequence[Holding]) -> Mapping[str, Extended]:
        """Restart the time to live of all of them in one round trip; returns token -> what was found.

        Raises:
            redis.exceptions.RedisError: Redis is away; nothing is lost by that.
        """
        if not holdings:
            return {}
        pipe = self._client.pipeline(transaction=False)
        for holding in holdings:
            self._extend(
                keys=[holding.key], args=[holding.token, holding.value, self._ttl_ms], client=pipe
            )
        answers = pipe.execute()
        return {
            holding.token: _EXTENDED[int(answer)]
            for holding, answer in zip(holdings, answers, strict=True)
        }

    def _try(self, name: str, token: str, value: str) -> LeaseHeld | None:
        """Claim in one plain command, which is what nearly every attempt pays for; else look who."""
        if self._client.set(name, value, px=self._ttl_ms, nx=True):
            return None
        pipe = self._client.pipeline()
        pipe.get(name)
        pipe.pttl(name)
        found, remaining_ms = pipe.execute()
        holder = _parsed(found)
        if holder.get("token") == token:
            return None
        since = holder.get("since")
        return LeaseHeld(
            worker=str(holder.get("worker", "unknown")),
            token=str(holder.get("token", "")),
            since=since if isinstance(since, float) else 0.0,
            remaining_s=max(0.0, int(remaining_ms) / 1000),
        )


def _parsed(value: object) -> Mapping[str, object]:
    """Read a lease's value; one that is not ours is held by nobody we know."""
    try:
        holder = json.loads(value if isinstance(value, bytes | str) else b"")
    except ValueError:
        holder = None
    return holder if isinstance(holder, dict) else {}
