"""Which workers live, and in which results folder each of them looks for runs.

A worker's word ends by itself soon after the worker; nothing is decided by it but whether a
coordinator sends messages that nobody could deliver.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from redis import Redis

from agentcompass.coordinator.ports import LiveWorker
from workers.broker.keys import PREFIX

_NOW: Final = "local t = redis.call('TIME') local now = t[1] + t[2] / 1000000"
_SAY: Final = f"""
{_NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('EXPIRE', KEYS[1], math.ceil(tonumber(ARGV[2])) + 1)
"""
_LIVING: Final = f"{_NOW} return redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf')"


@dataclass(frozen=True, slots=True)
class Word:
    """What one worker says of itself; two of the same name are told apart."""

    instance: str
    name: str
    root: str
    results_dir: str


class Presence:
    """The words of all workers of one broker, by the queue that they serve."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._say = client.register_script(_SAY)
        self._living = client.register_script(_LIVING)

    def say(self, queue: str, word: Word, for_s: float) -> None:
        """Say that a worker lives, for so long."""
        self._say(keys=[_key(queue)], args=[_text(word), for_s])

    def withdraw(self, queue: str, word: Word) -> None:
        """Say that it takes no more messages."""
        self._client.zrem(_key(queue), _text(word))

    def living(self, queue: str) -> Sequence[LiveWorker]:
        """Return the workers that take attempts of a queue, in the order of their names."""
        words: Sequence[bytes] = self._living(keys=[_key(queue)])
        found = filter(None, map(_parsed, words))
        return sorted(
            (LiveWorker(word.name, word.root, word.results_dir) for word in found),
            key=lambda worker: worker.name,
        )


def _parsed(text: bytes) -> Word | None:
    try:
        return Word(**json.loads(text))
    except (ValueError, TypeError):
        return None  # not a word of ours


def _key(queue: str) -> str:
    return f"{PREFIX}serving:{queue}"


def _text(word: Word) -> str:
    return json.dumps(asdict(word), separators=(",", ":"))
