from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workers.broker.wire import Envelope


class ParkingLot:
    """Stands in for Redis: remembers what was parked and woken."""

    def __init__(self) -> None:
        self.parked: list[tuple[Envelope, str, float, bool]] = []
        self.woken: list[str] = []

    def park(
        self, envelope: Envelope, lease: str, due_s: float, *, while_held: bool = False
    ) -> None:
        self.parked.append((envelope, lease, due_s, while_held))

    def unpark(self, limit: int = 100) -> int:
        return 0

    def wake(self, leases: list[str]) -> None:
        self.woken += leases


@pytest.fixture
def lot() -> ParkingLot:
    return ParkingLot()


class Request(SimpleNamespace):
    """As much of Celery's context as our tasks look at."""

    def get(self, name: str, default: Any = None) -> Any:
        return self.__dict__.get(name, default)


def a_request(**headers: object) -> Request:
    return Request(
        id="run-1:task-1-abc:a1:l1",
        task="eval.attempt",
        args=["run-1", "ab" * 4, 1, 0, 1],
        delivery_info={"routing_key": "default.lane3"},
        argsrepr="task-1 attempt 1/1",
        kwargsrepr="run=run-1",
        group="run-1.l1",
        chord={"task": "eval.finalize"},
        compass="abababab.123:0:1",
        **headers,
    )
