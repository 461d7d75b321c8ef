"""Messages that are doubled, lost, early or late: the directory decides, and is right.

Field reports Q02, Q03, Q08, Q09, Q16, Q17, Q20.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from agentcompass.coordinator.runs import opened
from tests.support.chaos_house import POOLS, House, Run, lane_of
from tests.support.cluster import until
from workers.broker.lanes import lanes_of
from workers.dispatch import RedisQueue
from workers.settings import CONTROL_QUEUE

pytestmark = pytest.mark.integration
BOTH = pytest.mark.parametrize("pool", POOLS)


def copy_of(message: bytes) -> str:
    """Return the message as another sender would send it."""
    content: dict[str, Any] = json.loads(message)
    content["properties"]["delivery_tag"] = str(uuid.uuid4())
    return json.dumps(content)


def finalize(house: House, run: Run) -> None:
    RedisQueue(house.cluster.broker.url).finalize(opened(run.dir).address, 1)


def is_drained(house: House) -> bool:
    lanes = [lane for pool in POOLS for lane in lanes_of(lane_of(pool))]
    client = house.cluster.broker.client
    return not any(client.exists(name) for name in (*lanes, CONTROL_QUEUE, "unacked", "ac:parked"))


@BOTH
def test_every_message_thrice_and_once_more_afterwards_executes_each_once(
    empty_house: House, pool: str
) -> None:
    house = empty_house
    client = house.cluster.broker.client
    run = house.detached(8, script={"*": "sleep:0.3"}, pool=pool)
    waiting = house.waiting(pool)
    for lane, message in waiting * 2:
        client.lpush(lane, copy_of(message))

    house.worker(pool), house.worker(pool)
    run.wait()
    lane, message = waiting[0]
    client.lpush(lane, copy_of(message))

    until(lambda: is_drained(house), "all copies come to nothing", 60)
    assert (run.executed(), run.check()) == (8, [])
    assert house.cluster.log_text().count("finalized") == 1


def test_many_small_chords_all_get_their_callback(house: House) -> None:
    runs = [house.detached(5, pool=POOLS[number % 2]) for number in range(8)]

    for run in runs:
        run.wait()
        assert (run.status, run.executed()) == ("completed", 5)


@pytest.mark.parametrize("who", ["watch", "resume"])
def test_a_callback_that_got_lost_is_made_up_for(empty_house: House, who: str) -> None:
    house = empty_house
    client = house.cluster.broker.client
    house.attempts_only()
    run = house.detached(4)
    until(lambda: bool(client.exists(CONTROL_QUEUE)), "the callback waits")

    client.delete(CONTROL_QUEUE)
    assert (run.results(), run.is_over) == (4, False)

    said = house.cluster.call(who, str(run.dir), *house.broker)

    assert said.code == 0, said
    assert (run.status, run.executed(), run.check()) == ("completed", 4, [])


def test_an_early_callback_writes_nothing_final(house: House) -> None:
    may_end = house.cluster.directory / "may-end"
    run = house.detached(5, script={"t4": f"until:{may_end}"})
    until(lambda: run.results() == 4, "all others are done")

    finalize(house, run)

    until(lambda: is_asked(house, run), "the finalizer has looked")
    assert not (run.dir / "metrics.json").exists()
    may_end.touch()
    run.wait()
    assert run.counts()["evaluated"] == 5


def is_asked(house: House, run: Run) -> bool:
    """Return whether the finalizer has put its message off."""
    parked: Any = house.cluster.broker.client.hvals("ac:parked:messages")
    return any(b"finalize" in message and run.name.encode() in message for message in parked)


def test_callbacks_one_after_the_other_and_at_once_change_nothing(house: House) -> None:
    run, said = house.run(3)
    assert said.code == 0, said
    names = ("metrics.json", "run_info.json", "summary.md", ".covered.json")
    before = {name: (run.dir / name).stat() for name in names}

    for _ in range(6):
        finalize(house, run)
    until(lambda: is_drained(house), "all are worked on")

    assert {name: (run.dir / name).stat() for name in names} == before


def test_short_attempts_do_not_wait_behind_a_long_one(empty_house: House) -> None:
    house = empty_house
    house.awaits(house.worker(slots=1), house.worker(slots=1))

    run = house.detached(8, script={"t0": "hang"})

    until(lambda: run.results() == 7, "the others are done")
    assert run.executed() == 8


def test_nothing_large_goes_through_redis(house: House) -> None:
    client = house.cluster.broker.client
    before = used_memory(client)
    many = house.detached(1_000, "-k", "2", "--queue", "nobody")
    lanes = [name for name in lanes_of("nobody") if client.llen(name)]
    messages: Any = client.lrange(lanes[0], 0, -1)

    assert (len(lanes), len(messages)) == (1, 2_000)
    assert max(map(len, messages)) < 4_096
    assert used_memory(client) - before < 50 << 20
    run, _ = house.run(1, script={"t0": "trajectory:40000000"})
    assert (run.codes("t0"), run.check()) == ([], [])
    assert used_memory(client) - before < 50 << 20
    client.delete(lanes[0])
    assert not many.is_over


def used_memory(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


@BOTH
def test_cancelling_one_that_waits_and_one_that_executes_lets_the_others_finish(
    empty_house: House, pool: str
) -> None:
    house = empty_house
    house.worker(pool, slots=1)
    run, coordinator = house.attended(6, script={"t0": "hang"}, pool=pool)
    until(lambda: run.executed() == 1, "the first one executes")

    for task_id in ("t3", "t0"):
        said = house.cluster.call("cancel", str(run.dir), task_id, *house.broker)
        assert said.code == 0, said

    assert coordinator.wait(60) == 1
    counts = run.counts()
    assert (counts["evaluated"], counts["unavailable"], counts["error"]) == (4, 2, 0)
    assert (run.executed("t3"), run.status, run.check()) == (0, "completed", [])
