"""What every `Queue` promises, held against the fake and against a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.coordinator.ports import PendingAttempt, Queue, RunAddress
from agentcompass.errors import BrokerUnreachable
from agentcompass.store.root import ResultsRoot
from tests.fakes.queue import FakeQueue
from tests.support.broker import RealBroker, server_binary

RUN = RunAddress(ResultsRoot(Path("results"), "0" * 32), "space/run-1", Path("results/run-1"), k=2)
OTHER = RunAddress(ResultsRoot(Path("results"), "0" * 32), "space/run-2", Path("results/run-2"))
ATTEMPTS = [PendingAttempt(0, 1, "a"), PendingAttempt(40, 1, "b"), PendingAttempt(0, 2, "a")]
KEYS = {attempt.key for attempt in ATTEMPTS}


@pytest.fixture(params=["fake", pytest.param("redis", marks=pytest.mark.integration)])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queue]:
    if request.param == "fake":
        yield FakeQueue()
        return
    from workers.dispatch import RedisQueue

    if server_binary() is None:
        pytest.skip("no Redis server is installed")
    broker = RealBroker(tmp_path / "redis")
    broker.start()
    yield RedisQueue(broker.url)
    broker.close()


def test_a_broker_does_not_know_a_run_before_it_was_dispatched(queue: Queue) -> None:
    queue.ping(5)

    assert not queue.holdings(RUN).known


def test_what_was_dispatched_is_held_until_somebody_takes_it(queue: Queue) -> None:
    queue.dispatch(RUN, 1, iter(ATTEMPTS), len(ATTEMPTS))

    holdings = queue.holdings(RUN)
    assert (holdings.known, set(holdings.queued), set(holdings.all)) == (True, KEYS, KEYS)


def test_runs_do_not_see_each_others_messages(queue: Queue) -> None:
    queue.dispatch(RUN, 1, iter(ATTEMPTS), len(ATTEMPTS))

    assert not queue.holdings(OTHER).all


def test_a_broker_that_was_only_sent_single_messages_knows_the_run(queue: Queue) -> None:
    queue.resend(RUN, 1, iter(ATTEMPTS[:1]))

    holdings = queue.holdings(RUN)
    assert (holdings.known, set(holdings.queued)) == (True, {(0, 1)})


def test_a_leg_without_attempts_is_dispatched_all_the_same(queue: Queue) -> None:
    queue.dispatch(RUN, 1, iter(()), 0)

    assert queue.holdings(RUN).known


def test_doing_anything_twice_does_no_harm(queue: Queue) -> None:
    for _ in range(2):
        queue.dispatch(RUN, 1, iter(ATTEMPTS), len(ATTEMPTS))
        queue.resend(RUN, 1, iter(ATTEMPTS))
        queue.finalize(RUN, 1)
        queue.nudge(RUN)

    assert set(queue.holdings(RUN).all) == KEYS


@pytest.mark.integration
def test_a_broker_that_does_not_answer_is_told_without_its_password(tmp_path: Path) -> None:
    from workers.dispatch import RedisQueue

    queue = RedisQueue("redis://:hunter22@127.0.0.1:1/0")

    with pytest.raises(BrokerUnreachable) as caught:
        queue.ping(2)

    assert "hunter22" not in str(caught.value)
