from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentcompass.runtime.ports import Admitted, Bounds, LeaseKey, LeaseTaken, NotYet, Slot
from tests.support.broker import RealBroker, server_binary
from tests.support.cluster import SOON_MISSED, Cluster
from workers.broker.client import connect
from workers.broker.leases import RedisLeases
from workers.limits.redis_limits import RedisLimits


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RealBroker]:
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    real = RealBroker(tmp_path / "redis")
    real.start()
    yield real
    real.close()


@dataclass
class Door:
    """One place with its limits, and executions that come to it."""

    broker: RealBroker
    bounds: Bounds = field(default_factory=lambda: Bounds(at_once=1))
    lease_s: float = 30.0
    offsets: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.client = connect(self.broker.url)
        self.limits = RedisLimits(self.client)
        self.leases = RedisLeases(self.client, self.lease_s)

    def slot(self, run: str = "run", place: str = "model:a", number: int = 1) -> Slot:
        """Return a slot of a new attempt that holds its lease."""
        key = LeaseKey("root", run, next(self.offsets), 1)
        token = f"token{key.offset}"
        assert isinstance(self.leases.take(key, token, worker="w"), LeaseTaken)
        return Slot(place, key, token, number)

    def die(self, slot: Slot) -> None:
        """End the holder as a worker's end does: its lease is gone, its slot is not given back."""
        self.leases.release(slot.holder, slot.token)
        self.forget_when_the_dead_were_sought(slot.place)

    def forget_when_the_dead_were_sought(self, place: str = "model:a") -> None:
        self.client.delete(f"ac:at:{place}:purged")

    def enter(self, slot: Slot, tokens: int = 0, bounds: Bounds | None = None) -> Admitted | NotYet:
        return self.limits.enter(slot, bounds or self.bounds, tokens)

    def is_in(self, slot: Slot, tokens: int = 0, bounds: Bounds | None = None) -> bool:
        return isinstance(self.enter(slot, tokens, bounds), Admitted)

    def leave(self, slot: Slot, tokens: int | None = None) -> None:
        self.limits.leave(slot, self.bounds, tokens)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    with Cluster(tmp_path, SOON_MISSED) as made:
        made.broker.start()
        yield made
