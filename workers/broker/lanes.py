"""Lanes: a queue is eight Redis lists, so that a run of 100,000 does not starve the next one.

A worker takes from all lanes in turn; a run stays in one lane. Two runs share their workers evenly
unless they share a lane. Lanes are fixed: a queue per run would be lost by workers that restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from redis import Redis

LANES: Final = 8


def lanes_of(queue: str) -> tuple[str, ...]:
    """Return the names of the lanes of a queue."""
    return tuple(f"{queue}.lane{number}" for number in range(LANES))


def queue_of(lane: str) -> str:
    """Return the queue that a lane belongs to."""
    return lane.rpartition(".lane")[0]


def least_loaded(client: Redis, queue: str, *, seed: str) -> str:
    """Return the lane with the fewest messages; `seed` (hex) picks among equals."""
    names = lanes_of(queue)
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.llen(name)
    loads: Sequence[int] = pipe.execute()
    best = [name for name, load in zip(names, loads, strict=True) if load == min(loads)]
    return best[int(seed, 16) % len(best)]
