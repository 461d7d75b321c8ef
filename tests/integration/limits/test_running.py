"""How many attempts of one run execute at once, on a real Redis."""

from __future__ import annotations

import pytest

from agentcompass.runtime.ports import LeaseKey
from tests.integration.limits.conftest import Door
from tests.support.broker import RealBroker
from workers.broker.keys import PARKED, keys_of, lease_key
from workers.broker.parking import Parking
from workers.broker.wire import Envelope

pytestmark = pytest.mark.integration
RUN = keys_of("root", "run")
LANE = "default.lane0"


class Attempts:
    """The attempts of one run: some execute, some are parked."""

    def __init__(self, broker: RealBroker, at_most: int) -> None:
        self.door = Door(broker)
        self.at_most = at_most
        self.parking = Parking(self.door.client)

    def begin(self, offset: int, *, with_lease: bool = True) -> bool:
        key = LeaseKey("root", "run", offset, 1)
        if with_lease:
            self.door.leases.take(key, f"token{offset}", worker="w")
        return self.door.limits.begin(key, f"token{offset}", self.at_most)

    def end(self, offset: int) -> None:
        key = LeaseKey("root", "run", offset, 1)
        self.door.limits.end(key, f"token{offset}", self.at_most)

    def die(self, offset: int) -> None:
        self.door.leases.release(LeaseKey("root", "run", offset, 1), f"token{offset}")
        self.door.client.delete(f"{RUN.prefix}running:purged")

    def park(self, name: str, leg: int = 1) -> None:
        envelope = Envelope("t", name, [], LANE, shown="")
        self.parking.park(envelope, lease_key(LeaseKey("root", "run", 99, 1)), 60.0)
        self.door.limits.wait(RUN, name, leg=leg, at_most=self.at_most)

    def due_s(self, name: str) -> float:
        score = self.door.client.zscore(PARKED, name)
        assert isinstance(score, float)
        seconds, _ = self.door.client.time()
        return score - seconds

    def came_back(self) -> list[str]:
        texts = [bytes(text) for text in self.door.client.lrange(LANE, 0, -1)]  # type: ignore[arg-type]  # no decoding client
        return [text.decode().split('"correlation_id":"')[1].split('"')[0] for text in texts]


def test_so_many_attempts_execute_at_once(broker: RealBroker) -> None:
    run = Attempts(broker, at_most=2)

    assert [run.begin(1), run.begin(2), run.begin(3)] == [True, True, False]
    assert run.begin(2)
    run.end(1)
    assert run.begin(3)


def test_an_attempt_that_ends_puts_the_next_one_back_into_its_lane_at_once(
    broker: RealBroker,
) -> None:
    run = Attempts(broker, at_most=1)
    run.begin(1)
    run.park("early")
    run.park("late")
    assert run.came_back() == []

    run.end(1)

    assert run.came_back() == ["early"]
    assert run.door.client.zscore(PARKED, "early") is None


def test_as_many_come_back_as_there_is_room_for(broker: RealBroker) -> None:
    run = Attempts(broker, at_most=3)
    for offset in (1, 2, 3):
        run.begin(offset)
    for name in ("a", "b", "c"):
        run.park(name)

    run.die(1)
    run.end(2)

    assert sorted(run.came_back()) == ["a", "b"]


def test_who_is_parked_just_after_the_last_one_has_ended_is_due_at_once(
    broker: RealBroker,
) -> None:
    run = Attempts(broker, at_most=1)
    run.begin(1)
    run.end(1)

    run.park("late")

    assert run.due_s("late") < 0


def test_messages_of_the_newest_leg_come_first(broker: RealBroker) -> None:
    run = Attempts(broker, at_most=1)
    run.begin(1)
    run.park("old", leg=1)
    run.park("new", leg=2)

    run.end(1)

    assert run.came_back() == ["new"]


def test_a_parked_one_that_came_back_by_itself_is_not_waited_for(broker: RealBroker) -> None:
    run = Attempts(broker, at_most=1)
    run.begin(1)
    run.park("gone")
    run.park("next")
    run.door.client.zrem(PARKED, "gone")

    run.end(1)

    assert run.came_back() == ["next"]


def test_the_place_of_a_dead_attempt_comes_back_by_itself(broker: RealBroker) -> None:
    run = Attempts(broker, at_most=1)
    run.begin(1)
    assert not run.begin(2)

    run.die(1)

    assert run.begin(2)


def test_those_far_behind_look_for_themselves_less_often(broker: RealBroker) -> None:
    run = Attempts(broker, at_most=1)
    run.begin(1)
    run.park("m0")
    assert 0 < run.due_s("m0") < 70

    for number in range(1, 100):
        run.park(f"m{number}")
    assert 3_000 < run.due_s("m99") < 3_700
