"""Chord bookkeeping that no outage, crash or failure can leave half done.

Celery's own counts a header, then publishes the callback in a second step; a crash or an outage
between the two hangs the chord, and any failed header suppresses its callback. Here the header
that completes the chord pushes the callback in the same Redis script, and what failed does not
count: its attempt is sent again or found on disk. The protocol stays Celery's: the group's size
and members under Celery's keys, the callback in each header's `chord`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from celery import states
from celery.backends.redis import RedisBackend
from redis.commands.core import Script

from workers.broker.wire import envelope_of_signature

_COUNT_AND_PUSH: Final = """
local done, size, members, lane = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local member, callback, expires_s = ARGV[1], ARGV[2], ARGV[3]
if redis.call('EXISTS', done) == 1 then return -1 end
redis.call('SADD', members, member)
redis.call('EXPIRE', members, expires_s)
local count, wanted = redis.call('SCARD', members), redis.call('GET', size)
if wanted then redis.call('EXPIRE', size, expires_s) end
if wanted and count >= tonumber(wanted) then
    redis.call('LPUSH', lane, callback)
    redis.call('SET', done, '1', 'EX', expires_s)
    redis.call('DEL', members, size)
end
return count
"""


class PatientRedisBackend(RedisBackend):
    """Counts each header once and waits for a Redis that is away, for as long as it takes."""

    @cached_property
    def _count_and_push(self) -> Script:
        script: Script = self.client.register_script(_COUNT_AND_PUSH)
        return script

    def on_chord_part_return(
        self, request: Any, state: str, result: object, propagate: object = None, **_: object
    ) -> None:
        """Count the header `request`; the last one sends the callback."""
        if state != states.SUCCESS or not request.group or not request.id:
            return
        callback = envelope_of_signature(request.chord)
        keys = [self.get_key_for_group(request.group, suffix) for suffix in (".c", ".s", ".d")]
        self.ensure(
            lambda: self._count_and_push(
                keys=[*keys, callback.queue],
                args=[request.id, callback.encode(), int(self.chord_expires)],
            ),
            (),
            max_retries=None,
            interval_start=0.2,
            interval_step=0.5,
            interval_max=5,
        )
