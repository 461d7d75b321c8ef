"""Slots at one place, on a real Redis."""

from __future__ import annotations

from typing import Any

import pytest

from agentcompass.runtime.ports import Admitted, Bounds, LimitsUnreachable, NotYet, Slot
from tests.integration.limits.conftest import Door
from tests.support.broker import RealBroker
from workers.broker.keys import lease_key

pytestmark = pytest.mark.integration


def test_so_many_are_in_at_once_and_the_next_one_when_one_has_left(broker: RealBroker) -> None:
    door = Door(broker, Bounds(at_once=2))
    one, two, three = (door.slot() for _ in range(3))

    assert [door.is_in(each) for each in (one, two, three)] == [True, True, False]
    door.leave(one)
    assert door.is_in(three)


def test_who_asks_again_after_a_lost_answer_is_counted_once(broker: RealBroker) -> None:
    door = Door(broker, Bounds(at_once=2))
    one, two = door.slot(), door.slot()

    assert door.is_in(one)
    assert door.is_in(one)
    assert door.is_in(two)


def test_who_came_first_goes_first_within_one_run(broker: RealBroker) -> None:
    door = Door(broker)
    holder, early, late = (door.slot() for _ in range(3))
    assert [door.is_in(each) for each in (holder, early, late)] == [True, False, False]

    door.leave(holder)

    assert not door.is_in(late)
    assert door.is_in(early)


def test_two_runs_take_turns_however_many_of_each_wait(broker: RealBroker) -> None:
    door = Door(broker)
    holder = door.slot("big")
    assert door.is_in(holder)
    waiting = [*(door.slot("big") for _ in range(6)), *(door.slot("small") for _ in range(3))]
    for each in waiting:
        assert not door.is_in(each)

    order = []
    while waiting:
        door.leave(holder)
        (holder,) = (each for each in waiting if door.is_in(each))
        waiting.remove(holder)
        order.append(holder.holder.run_ref)

    assert sorted(order[:2]) == sorted(order[2:4]) == sorted(order[4:6]) == ["big", "small"]
    assert order[6:] == ["big"] * 3


def test_a_run_that_comes_back_for_one_slot_at_a_time_does_not_keep_another_one_out(
    broker: RealBroker,
) -> None:
    door = Door(broker)
    waits = door.slot("z")
    holder = door.slot("a")
    assert door.is_in(holder)
    assert not door.is_in(waits)

    back = door.slot("a")
    assert not door.is_in(back)
    door.leave(holder)

    assert not door.is_in(back)
    assert door.is_in(waits)


def test_the_slot_of_a_dead_holder_comes_back_by_itself(broker: RealBroker) -> None:
    door = Door(broker)
    dead, heir = door.slot(), door.slot()
    assert door.is_in(dead)
    assert not door.is_in(heir)

    door.die(dead)

    assert door.is_in(heir)


def test_a_holder_whose_lease_somebody_else_has_is_dead(broker: RealBroker) -> None:
    door = Door(broker)
    dead, heir = door.slot(), door.slot()
    assert door.is_in(dead)
    door.die(dead)
    door.leases.take(dead.holder, "another", worker="w")

    assert door.is_in(heir)


def test_a_dead_one_at_the_front_of_the_queue_is_passed_over(
    broker: RealBroker,
) -> None:
    door = Door(broker)
    holder, dead, heir = (door.slot() for _ in range(3))
    assert [door.is_in(each) for each in (holder, dead, heir)] == [True, False, False]
    door.leave(holder)
    assert not door.is_in(heir)

    # As if it had not asked again in its time.
    door.client.hset(f"ac:at:{dead.place}:seen", _name(dead), 1)

    assert door.is_in(heir)


def _name(slot: Slot) -> str:
    return f"{lease_key(slot.holder)}|{slot.token}|{slot.number}"


def test_who_stops_waiting_makes_way_for_those_behind(broker: RealBroker) -> None:
    door = Door(broker)
    holder, gone, heir = (door.slot() for _ in range(3))
    assert [door.is_in(each) for each in (holder, gone, heir)] == [True, False, False]

    door.leave(gone)
    door.leave(holder)

    assert door.is_in(heir)


def test_places_do_not_know_of_each_other(broker: RealBroker) -> None:
    door = Door(broker)

    assert door.is_in(door.slot(place="model:a"))
    assert door.is_in(door.slot(place="model:b"))


def test_the_stricter_of_two_runs_gets_its_turn_too(broker: RealBroker) -> None:
    door = Door(broker)
    strict, loose = Bounds(at_once=1), Bounds(at_once=3)
    inside = [door.slot("loose") for _ in range(3)]
    assert all(door.is_in(each, bounds=loose) for each in inside)
    waits, more = door.slot("strict"), door.slot("loose")
    assert not door.is_in(waits, bounds=strict)

    door.leave(inside[0])
    assert not door.is_in(more, bounds=loose)
    door.leave(inside[1])
    door.leave(inside[2])

    assert door.is_in(waits, bounds=strict)


def test_so_many_requests_a_minute_and_the_next_one_when_the_first_is_a_minute_old(
    broker: RealBroker,
) -> None:
    door = Door(broker, Bounds(per_minute=3))
    slots = [door.slot() for _ in range(4)]

    for each in slots[:3]:
        assert door.is_in(each)
        door.leave(each)
    answer = door.enter(slots[3])
    assert isinstance(answer, NotYet)
    assert answer.again_s > 10
    _a_minute_later(door)

    assert door.is_in(slots[3])


def _a_minute_later(door: Door) -> None:
    """Make what was counted a minute older."""
    name = "ac:at:model:a:minute"
    counted: Any = door.client.hgetall(name)
    door.client.delete(name)
    for field, count in counted.items():
        door.client.hset(name, f"{field[:1].decode()}{int(field[1:]) - 62}", count)


def test_tokens_a_minute_are_guessed_before_and_corrected_after(broker: RealBroker) -> None:
    door = Door(broker, Bounds(tokens_per_minute=1_000))
    one, two, three = (door.slot() for _ in range(3))

    assert door.is_in(one, 900)
    assert not door.is_in(two, 900)
    door.leave(one, 50)

    assert door.is_in(two, 900)
    assert not door.is_in(three, 100)


def test_a_call_larger_than_the_limit_goes_alone_instead_of_never(broker: RealBroker) -> None:
    door = Door(broker, Bounds(tokens_per_minute=1_000))

    assert door.is_in(door.slot(), 5_000)


def test_small_calls_do_not_overtake_a_large_one_for_ever(broker: RealBroker) -> None:
    door = Door(broker, Bounds(tokens_per_minute=1_000))
    first, large, small = (door.slot() for _ in range(3))
    assert door.is_in(first, 500)
    assert not door.is_in(large, 900)
    assert not door.is_in(small, 10)

    door.leave(first, 50)

    assert not door.is_in(small, 10)
    assert door.is_in(large, 900)
    assert door.is_in(small, 10)


def test_a_busy_server_is_left_alone_by_everybody_until_then(broker: RealBroker) -> None:
    door = Door(broker, Bounds(at_once=5))
    refused, other = door.slot(), door.slot("other")
    assert door.is_in(refused)

    door.limits.slow_down(refused, door.bounds, 30.0)
    door.leave(refused)
    answer = door.enter(other)
    assert isinstance(answer, NotYet)
    assert answer.again_s > 10
    door.client.hset("ac:at:model:a:state", "not_before", 1)  # that was long ago

    assert door.is_in(other)


def test_a_shorter_wish_does_not_shorten_a_longer_one(broker: RealBroker) -> None:
    door = Door(broker, Bounds(at_once=5))
    one, two, other = (door.slot() for _ in range(3))
    assert door.is_in(one)
    assert door.is_in(two)

    door.limits.slow_down(one, door.bounds, 30.0)
    door.limits.slow_down(two, door.bounds, 0.1)

    answer = door.enter(other)
    assert isinstance(answer, NotYet)
    assert answer.again_s > 10


ADAPTIVE = Bounds(at_once=8, is_adaptive=True)


def limit_of(door: Door) -> int | None:
    probe = door.slot()
    answer = door.enter(probe, bounds=door.bounds)
    assert isinstance(answer, Admitted)
    door.leave(probe)
    return answer.limit


def test_an_adaptive_limit_grows_by_one_for_a_round_that_went_well(broker: RealBroker) -> None:
    door = Door(broker, ADAPTIVE)
    assert limit_of(door) == 4

    seen = []
    for _ in range(3):
        inside = []
        while door.is_in(slot := door.slot()):
            inside.append(slot)
        seen.append(len(inside))
        for each in (slot, *inside):
            door.leave(each)

    assert seen == [4, 4, 5]  # a little less than one, because it grows on its way


def test_an_adaptive_limit_is_halved_once_for_calls_that_were_refused_together(
    broker: RealBroker,
) -> None:
    door = Door(broker, ADAPTIVE)
    inside = [door.slot() for _ in range(4)]
    assert all(door.is_in(each) for each in inside)

    for each in inside:
        door.limits.slow_down(each, door.bounds, 0)
        door.leave(each)

    assert limit_of(door) == 2


def test_an_adaptive_limit_never_falls_below_one_nor_grows_above_the_most(
    broker: RealBroker,
) -> None:
    door = Door(broker, Bounds(at_once=1, is_adaptive=True))
    one = door.slot()
    assert door.is_in(one)
    door.limits.slow_down(one, door.bounds, 0)
    door.leave(one)

    assert limit_of(door) == 1


def test_nothing_that_a_place_keeps_stays_for_ever(broker: RealBroker) -> None:
    door = Door(broker, Bounds(2, 100, 1_000))
    for run in ("a", "b"):
        for _ in range(3):
            door.enter(door.slot(run), 10)

    names = list(door.client.scan_iter("ac:at:*"))
    assert names
    assert [name for name in names if door.client.pttl(name) == -1] == []  # -2 is gone already


def test_an_unreachable_redis_is_said_and_giving_back_never_raises(broker: RealBroker) -> None:
    door = Door(broker)
    slot = door.slot()
    broker.close()

    with pytest.raises(LimitsUnreachable):
        door.enter(slot)
    door.leave(slot)
    door.limits.slow_down(slot, door.bounds, 1.0)
