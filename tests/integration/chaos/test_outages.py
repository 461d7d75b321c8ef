"""Redis goes, comes back, forgets, or loses a piece: no worker ends, nothing runs twice.

Field reports Q01, Q05, Q13, Q14, Q15.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import server_binary
from tests.support.chaos_house import POOLS, House
from tests.support.cluster import until
from tests.support.worker_lab import stay_out

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
BOTH = pytest.mark.parametrize("pool", POOLS)


@pytest.fixture
def patient_house(tmp_path: Path) -> Iterator[House]:
    """Visibility and leases of 4 s, but all the time for attempts to end in peace."""
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    with House(tmp_path, {"AGENTCOMPASS_GRACE_S": "600"}) as made:
        yield made


def test_two_outages_cost_neither_a_worker_nor_an_execution(empty_house: House) -> None:
    """In both pools; attempts end before, during and after, and slots are free all the time."""
    house = empty_house
    workers = [house.worker(pool, 6) for pool in POOLS]
    house.awaits(*workers)
    script = {f"t{number}": f"sleep:{number * 2}" for number in range(8)}
    # Attended: a message that is taken when Redis is killed may be lost, and somebody sends it again.
    runs = [house.attended(8, script=script, pool=pool) for pool in POOLS]
    until(lambda: all(run.executed() >= 6 for run, _ in runs), "they are at work")

    for away_s in (1, 8):
        house.restart_redis(away_s)

    for run, coordinator in runs:
        assert coordinator.wait(120) == 0
        assert (run.executed(), run.status, run.check()) == (8, "completed", [])
    assert [worker.poll() for worker in workers] == [None, None]
    assert "DeprecationWarning" not in house.cluster.log_text()


@BOTH
def test_an_attempt_outlives_its_messages_visibility_a_reconnect_and_a_warm_shutdown(
    patient_house: House, pool: str
) -> None:
    house = patient_house
    first = house.worker(pool, slots=1)
    may_end = house.cluster.directory / "may-end"
    run = house.detached(2, script={"t0": f"until:{may_end}"}, pool=pool)
    until(lambda: run.executed("t0") == 1, "it is executed")
    house.awaits(house.worker(pool, slots=1))  # idle: would take what becomes visible
    until(lambda: run.results() == 1, "only that one is left")
    house.restart_redis(1)
    stay_out(house.cluster.broker.client, 5)  # longer than lease and visibility

    first.send_signal(signal.SIGTERM)
    stay_out(house.cluster.broker.client, 5)
    may_end.touch()

    assert first.wait(60) == 0
    run.wait()
    assert (run.executed("t0"), run.executed("t1"), run.status) == (1, 1, "completed")
    assert "is lost" not in house.log_of(first)


def test_a_broker_without_its_memory_is_told_the_rest_by_resume(empty_house: House) -> None:
    house = empty_house
    house.awaits(house.worker(slots=2))
    script = {f"t{number}": "sleep:0.4" for number in range(12)}
    run = house.detached(12, script=script)
    until(lambda: run.results() >= 5, "half of it is done")

    house.cluster.broker.client.flushall()
    until(lambda: run.results() == run.executed(), "what was executing ends")
    said = house.resume(run)

    assert said.code == 0, said
    assert (run.executed(), run.check()) == (12, [])


def test_a_new_redis_in_the_place_of_the_old_one_is_enough_for_resume(empty_house: House) -> None:
    house = empty_house
    worker = house.worker(slots=2)
    script = {f"t{number}": "sleep:0.6" for number in range(12)}
    run = house.detached(12, script=script)
    until(lambda: run.results() >= 4, "some of it is done")

    house.restart_redis(1, with_its_data=False)
    said = house.resume(run)

    assert said.code == 0, said
    assert run.executed() <= 14
    assert (run.counts()["evaluated"], run.check(), worker.poll()) == (12, [], None)


def test_a_chord_that_lost_its_count_is_completed_by_the_watchdog(empty_house: House) -> None:
    house = empty_house
    house.worker(slots=2)
    may_end = house.cluster.directory / "may-end"
    run, coordinator = house.attended(5, script={"t4": f"until:{may_end}"})
    until(lambda: run.results() == 4, "all but one are done")
    client = house.cluster.broker.client
    names = [name for name in client.keys("*taskset*") if isinstance(name, bytes)]
    assert names

    client.delete(*names)
    may_end.touch()

    assert coordinator.wait(60) == 0
    assert (run.executed(), run.counts()["evaluated"]) == (5, 5)
