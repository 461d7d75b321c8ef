"""Deliveries that wait outside of every slot and of every chord: parked in Redis, due later.

A parked message is left with Celery's `Ignore`, so nobody counts it. Any worker's heartbeat puts
due ones back into their lanes, in the same script that forgets them. Duplicates of one message
have the same id and become one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from redis import Redis

from workers.broker.keys import PARKED, PARKED_MESSAGES, waiters_key
from workers.broker.wire import Envelope

logger = logging.getLogger(__name__)

_DAY_S: Final = 86_400
_NOW: Final = "local t = redis.call('TIME') local now = t[1] + t[2] / 1000000"
_PARK: Final = f"""
{_NOW}
local due = now + tonumber(ARGV[2])
-- A holder that let go between our look and this moment woke nobody: be due at once.
if ARGV[4] == '1' and redis.call('EXISTS', ARGV[3]) == 0 then due = now end
redis.call('HSET', KEYS[2], ARGV[1], KEYS[3] .. '\\n' .. ARGV[5] .. '\\n' .. ARGV[6])
redis.call('ZADD', KEYS[1], due, ARGV[1])
redis.call('SADD', KEYS[3], ARGV[1])
redis.call('EXPIRE', KEYS[3], {30 * _DAY_S})
return 1
"""
_UNPARK: Final = f"""
{_NOW}
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, id in ipairs(due) do
    local parked = redis.call('HGET', KEYS[2], id)
    if parked then
        local waiters, lane, message = string.match(parked, '^([^\\n]*)\\n([^\\n]*)\\n(.*)$')
        redis.call('RPUSH', lane, message)
        redis.call('SREM', waiters, id)
    end
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
end
return #due
"""
_WAKE: Final = """
for _, id in ipairs(redis.call('SMEMBERS', KEYS[1])) do redis.call('ZADD', KEYS[2], 'XX', 0, id) end
"""


class Parking:
    """All parked deliveries of one broker."""

    def __init__(self, client: Redis) -> None:
        self._park = client.register_script(_PARK)
        self._unpark = client.register_script(_UNPARK)
        self._wake = client.register_script(_WAKE)

    def park(
        self, envelope: Envelope, lease: str, due_s: float, *, while_held: bool = False
    ) -> None:
        """Keep a message for `due_s` seconds, or until its attempt's lease is released.

        Args:
            lease: Redis key of the lease of the message's own attempt.
            while_held: it waits for the holder of that lease; if there is none, it is due now.

        Raises:
            redis.exceptions.RedisError: nothing was parked, or it is not known; parking again is safe.
        """
        self._park(
            keys=[PARKED, PARKED_MESSAGES, waiters_key(lease)],
            args=[
                envelope.message_id,
                due_s,
                lease,
                "1" if while_held else "0",
                envelope.queue,
                envelope.encode(),
            ],
        )

    def unpark(self, limit: int = 100) -> int:
        """Put up to `limit` due messages back, first in their lanes; returns how many were due."""
        return int(str(self._unpark(keys=[PARKED, PARKED_MESSAGES], args=[limit])))

    def wake(self, leases: Sequence[str]) -> None:
        """Make what waits for these attempts due now."""
        for lease in leases:
            self._wake(keys=[waiters_key(lease), PARKED], args=[])
