"""What the broker holds of one run: leases, parked deliveries, messages; read in pages.

Messages move while they are listed. The order (lanes, delivered, parked, lanes again) sees
each one at least once, whichever way it moves; a doubtful one is reported as held.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from redis import Redis

from agentcompass.coordinator.ports import AttemptKey, Holdings
from workers.broker.keys import PARKED_MESSAGES, UNACKED, RunKeys
from workers.broker.lanes import lanes_of, queue_of

_PAGE: Final = 500


def holdings_of(client: Redis, keys: RunKeys, queue: str) -> Holdings:
    """Return what is held of a run, of every leg."""
    tagged = re.compile(
        rb'"compass":\s*"%s\.%s:(\d+):(\d+)"' % (keys.root_digest.encode(), keys.digest.encode())
    )
    lanes = lanes_of(queue)
    queued = set(_found(tagged, _listed(client, lanes)))
    queued.update(_found(tagged, _hash_values(client, UNACKED)))
    parked = frozenset(_found(tagged, _hash_values(client, PARKED_MESSAGES)))
    queued.update(_found(tagged, _listed(client, lanes)))
    return Holdings(
        known=bool(client.exists(keys.known)),
        leased=frozenset(_leased(client, keys)),
        parked=parked,
        queued=queued,
    )


def holds_anything(client: Redis, keys: RunKeys) -> bool:
    """Return whether some attempt of the run is executing, waiting or on its way."""
    lane = client.get(keys.known)
    if not isinstance(lane, bytes):
        return False  # the broker lost its memory, and with it every message of the run
    return bool(holdings_of(client, keys, queue_of(lane.decode())).all)


def _found(tagged: re.Pattern[bytes], messages: Iterable[bytes]) -> Iterator[AttemptKey]:
    found = (tagged.search(message) for message in messages)
    return ((int(match[1]), int(match[2])) for match in found if match)


def _listed(client: Redis, lanes: Iterable[str]) -> Iterator[bytes]:
    """Walk from the new end to the old: what is taken from the old end shifts nothing."""
    for lane in lanes:
        start = 0
        while page := client.lrange(lane, start, start + _PAGE - 1):
            yield from (_bytes(element) for element in page)
            start += len(page)


def _hash_values(client: Redis, name: str) -> Iterator[bytes]:
    entries: Iterator[tuple[bytes, bytes]] = client.hscan_iter(name, count=_PAGE)
    return (value for _, value in entries)


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _leased(client: Redis, keys: RunKeys) -> Iterator[AttemptKey]:
    prefix = f"{keys.prefix}lease:"
    names: Iterator[Any] = client.scan_iter(match=f"{prefix}*", count=1_000)
    for name in names:
        parts = bytes(name).decode().removeprefix(prefix).split(":")
        if len(parts) == 2 and all(part.isdigit() for part in parts):
            yield int(parts[0]), int(parts[1])
