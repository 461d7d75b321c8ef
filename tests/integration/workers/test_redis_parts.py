"""Leases, parking, dispatch and holdings against a real server, without workers."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisIsAway

from agentcompass.coordinator.ports import LiveWorker, PendingAttempt, RunAddress
from agentcompass.errors import BrokerUnreachable
from agentcompass.runtime.ports import LeaseHeld, LeaseKey, LeasesUnreachable, LeaseTaken
from agentcompass.store.root import ResultsRoot, open_root
from tests.support.broker import RealBroker, free_port
from tests.support.worker_lab import ROOT_ID, pending
from workers.broker.client import connect
from workers.broker.holdings import holds_anything
from workers.broker.keys import PARKED, RunKeys, lease_key
from workers.broker.lanes import lanes_of, least_loaded
from workers.broker.leases import Holding, RedisLeases, lease_value
from workers.broker.parking import Parking
from workers.broker.presence import Presence, Word
from workers.broker.wire import Envelope
from workers.dispatch import RedisQueue, headers
from workers.keeping.herald import Herald

pytestmark = pytest.mark.integration

KEY = LeaseKey(ROOT_ID[:8], "bench/run-1", 731, 2)
LEASE = lease_key(KEY)


@pytest.fixture
def client(broker: RealBroker) -> Iterator[Redis]:
    with closing(connect(broker.url)) as made:
        yield made


@pytest.fixture
def leases(client: Redis) -> RedisLeases:
    return RedisLeases(client, ttl_s=30.0)


@pytest.fixture
def queue(broker: RealBroker) -> Iterator[RedisQueue]:
    with closing(RedisQueue(broker.url)) as made:
        yield made


@pytest.fixture
def run(broker: RealBroker) -> RunAddress:
    root = ResultsRoot(broker.directory, ROOT_ID)
    return RunAddress(root, "bench/run-1", broker.directory / "bench/run-1", "gpu", 2, "model")


def an_envelope(message_id: str = "one", queue: str = "gpu.lane0") -> Envelope:
    return Envelope("eval.attempt", message_id, ["r"], queue, "shown", tag="abababab.123:731:2")


def lane_of(client: Redis, run: RunAddress) -> str:
    value = client.get(RunKeys(run.root.digest, run.ref).known)
    assert isinstance(value, bytes)
    return value.decode()


def ids_in(client: Redis, lane: str) -> list[str]:
    """In the order in which workers get them."""
    return [json.loads(raw)["headers"]["id"] for raw in reversed(client.lrange(lane, 0, -1))]


def test_one_token_holds_a_lease_and_the_others_see_who(leases: RedisLeases) -> None:
    before_s = time.time()
    assert leases.take(KEY, "mine", worker="worker@a") == LeaseTaken()
    assert leases.take(KEY, "mine", worker="worker@a") == LeaseTaken()

    held = leases.take(KEY, "theirs", worker="worker@b")

    assert isinstance(held, LeaseHeld)
    assert (held.worker, held.token) == ("worker@a", "mine")
    assert 0 < held.remaining_s <= 30
    assert before_s - 1 < held.since < time.time() + 1


def test_only_its_holder_releases_a_lease(leases: RedisLeases, client: Redis) -> None:
    leases.take(KEY, "mine", worker="w")

    leases.release(KEY, "theirs")
    assert client.exists(LEASE)
    leases.release(KEY, "mine")
    assert not client.exists(LEASE)


def test_a_lease_is_lost_only_if_another_token_is_seen(leases: RedisLeases) -> None:
    assert leases.is_lost(KEY, "mine") is False
    leases.take(KEY, "mine", worker="w")
    assert (leases.is_lost(KEY, "mine"), leases.is_lost(KEY, "theirs")) == (False, True)


def test_extending_keeps_claims_again_or_tells_of_the_loss(
    leases: RedisLeases, client: Redis
) -> None:
    other = "ac:other"
    client.set(other, lease_value("theirs", "w", 0.0, 1), px=30_000)
    leases.take(KEY, "kept", worker="w")
    client.expire(LEASE, 1_000)
    holdings = [
        Holding(LEASE, "kept", lease_value("kept", "w", 0.0, 1)),
        Holding("ac:gone", "again", lease_value("again", "w", 0.0, 1)),
        Holding(other, "late", lease_value("late", "w", 0.0, 1)),
    ]

    found = leases.extend(holdings)

    assert found == {"kept": "kept", "again": "claimed_again", "late": "lost"}
    assert 0 < client.ttl(LEASE) <= 30
    assert leases.extend([]) == {}


def test_without_redis_nothing_is_lost_and_taking_gives_up_in_the_end() -> None:
    now = iter(range(100))
    nobody = connect(f"redis://127.0.0.1:{free_port()}/0")
    leases = RedisLeases(
        nobody, 30.0, patience_s=3.0, now=lambda: float(next(now)), sleep=lambda _: None
    )

    assert leases.is_lost(KEY, "mine") is False
    leases.release(KEY, "mine")
    with pytest.raises(LeasesUnreachable):
        leases.take(KEY, "mine", worker="w")
    with pytest.raises(RedisIsAway):
        leases.extend([Holding(LEASE, "mine", "value")])


def test_a_parked_message_returns_first_in_its_lane_when_it_is_due(client: Redis) -> None:
    parking = Parking(client)
    client.lpush("gpu.lane0", an_envelope("waiting").encode())

    parking.park(an_envelope("later"), LEASE, 60.0)
    parking.park(an_envelope("now"), LEASE, 0.0)

    assert parking.unpark() == 1
    assert ids_in(client, "gpu.lane0") == ["now", "waiting"]
    assert client.zrange(PARKED, 0, -1) == [b"later"]


def test_duplicates_of_a_parked_message_become_one(client: Redis) -> None:
    parking = Parking(client)
    for _ in range(3):
        parking.park(an_envelope(), LEASE, 0.0)

    assert parking.unpark() == 1
    assert ids_in(client, "gpu.lane0") == ["one"]


def test_what_waits_for_a_holder_that_is_gone_already_is_due_now(client: Redis) -> None:
    parking = Parking(client)
    parking.park(an_envelope("held"), LEASE, 60.0, while_held=True)
    parking.park(an_envelope("other"), LEASE, 60.0)

    assert parking.unpark() == 1
    assert ids_in(client, "gpu.lane0") == ["held"]


def test_a_release_and_a_wake_make_what_waits_due(leases: RedisLeases, client: Redis) -> None:
    parking = Parking(client)
    leases.take(KEY, "mine", worker="w")
    parking.park(an_envelope("duplicate"), LEASE, 60.0, while_held=True)
    parking.park(an_envelope("higher attempt"), "ac:other", 60.0)
    assert parking.unpark() == 0

    leases.release(KEY, "mine")
    assert parking.unpark() == 1
    parking.wake(["ac:other", "ac:nobody"])
    assert parking.unpark() == 1
    assert set(ids_in(client, "gpu.lane0")) == {"duplicate", "higher attempt"}


def test_a_chord_is_sent_in_the_given_order_behind_its_size(
    queue: RedisQueue, client: Redis, run: RunAddress
) -> None:
    queue.dispatch(run, 1, iter(pending(1_200)), 1_200)

    found = ids_in(client, lane_of(client, run))
    assert found == [one.message_id for one in headers(run, 1, pending(1_200), "x")]
    sizes = [client.get(key) for key in client.keys("*.s")]
    assert sizes == [b"1200"]


def test_a_run_goes_to_the_lane_with_the_least_work(queue: RedisQueue, client: Redis) -> None:
    for lane in lanes_of("gpu")[:-1]:
        client.lpush(lane, "busy")

    assert least_loaded(client, "gpu", seed="3") == "gpu.lane7"


def test_what_is_sent_again_is_first_in_line_with_the_same_ids(
    queue: RedisQueue, client: Redis, run: RunAddress
) -> None:
    queue.dispatch(run, 1, pending(3), 3)
    lane = lane_of(client, run)
    sent = ids_in(client, lane)

    queue.resend(run, 1, pending(3)[2:])

    assert ids_in(client, lane) == [sent[2], *sent]


def test_an_empty_chord_is_its_callback(queue: RedisQueue, client: Redis, run: RunAddress) -> None:
    queue.dispatch(run, 2, [], 0)

    [message_id] = ids_in(client, "control")
    assert message_id.endswith(".l2.finalize")
    assert queue.holdings(run).known


def test_holdings_find_a_run_wherever_its_messages_are(
    queue: RedisQueue, client: Redis, run: RunAddress
) -> None:
    queue.dispatch(run, 1, pending(3), 3)
    other = RunAddress(run.root, "bench/run-2", run.run_dir, "gpu")
    queue.dispatch(other, 1, [PendingAttempt(99, 1, "other")], 1)
    keys = RunKeys(run.root.digest, run.ref)
    delivered = client.lpop(lane_of(client, run))
    assert isinstance(delivered, bytes)
    client.hset("unacked", "tag", json.dumps([json.loads(delivered), "", "gpu.lane0"]))
    envelope = Envelope("t", "p", [], "gpu.lane0", "", tag=keys.tag(7, 2))
    Parking(client).park(envelope, keys.lease(7, 2), 60.0)
    client.set(keys.lease(8, 1), "{}")

    found = queue.holdings(run)

    assert found.known
    assert found.queued == {(0, 1), (1, 1), (2, 1)}
    assert found.parked == {(7, 2)}
    assert found.leased == {(8, 1)}
    assert holds_anything(client, keys)


def test_a_broker_that_forgot_everything_holds_nothing(
    queue: RedisQueue, client: Redis, run: RunAddress
) -> None:
    queue.dispatch(run, 1, pending(3), 3)
    client.flushall()

    assert queue.holdings(run).known is False
    assert not holds_anything(client, RunKeys(run.root.digest, run.ref))


def test_a_nudge_is_counted(queue: RedisQueue, client: Redis, run: RunAddress) -> None:
    queue.nudge(run)
    queue.nudge(run)

    assert client.get(RunKeys(run.root.digest, run.ref).nudges) == b"2"


@pytest.mark.parametrize("what", ["nobody", "wrong password"])
def test_a_broker_that_does_not_answer_is_named_without_its_password(
    broker: RealBroker, run: RunAddress, what: str
) -> None:
    broker.protect("canary")
    port = free_port() if what == "nobody" else broker.port
    queue = RedisQueue(f"redis://:canary-too@127.0.0.1:{port}/0")
    started = time.monotonic()

    for act in (lambda: queue.ping(5.0), lambda: queue.dispatch(run, 1, pending(1), 1)):
        with pytest.raises(BrokerUnreachable) as raised:
            act()
        assert "canary" not in str(raised.value)
        assert f"127.0.0.1:{port}" in str(raised.value)
    assert time.monotonic() - started < 10


def test_a_broker_that_hangs_is_given_up_in_time(broker: RealBroker) -> None:
    assert broker.process is not None
    broker.client.close()
    queue = RedisQueue(broker.url)
    started = time.monotonic()
    broker.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(BrokerUnreachable):
            queue.ping(1.0)
    finally:
        broker.process.send_signal(signal.SIGCONT)
    assert time.monotonic() - started < 20


def test_workers_are_known_by_their_queue_until_their_word_ends(
    client: Redis, queue: RedisQueue
) -> None:
    presence = Presence(client)
    presence.say("gpu", Word("i-1", "w@a", "ab" * 4, "/results"), 60)
    presence.say("gpu", Word("i-2", "w@a", "cd" * 4, "/results"), 60)
    presence.say("other", Word("i-1", "w@a", "ab" * 4, "/results"), 0.001)
    client.zadd("ac:serving:gpu", {"rubbish": 1e12})

    assert queue.workers("gpu") == [
        LiveWorker("w@a", root, "/results") for root in ("ab" * 4, "cd" * 4)
    ]
    time.sleep(0.01)
    assert queue.workers("other") == []
    presence.withdraw("gpu", Word("i-1", "w@a", "ab" * 4, "/results"))
    assert len(queue.workers("gpu")) == 1


def test_a_herald_tells_of_a_folder_that_was_mounted_late_and_takes_its_leave(
    client: Redis, queue: RedisQueue, tmp_path: Path
) -> None:
    leaving: list[str] = []
    results = tmp_path / "results"
    herald = Herald(
        Presence(client), ("a", "b"), ("i-1", "w@a"), results, 60.0, lambda: bool(leaving)
    )

    herald.tick(0.0)
    assert queue.workers("b") == [LiveWorker("w@a", "", str(results))]
    root = open_root(results)
    herald.tick(1.0)
    assert queue.workers("b")[0].root == ""
    herald.tick(20.0)
    assert queue.workers("b") == [LiveWorker("w@a", root.digest, str(results))]

    leaving.append("")
    herald.tick(20.1)
    assert (queue.workers("a"), queue.workers("b")) == ([], [])


def test_a_herald_without_redis_tries_again(broker: RealBroker, tmp_path: Path) -> None:
    (tmp_path / ".agentcompass-root").write_text("none of ours")
    with (
        closing(connect(broker.url, retries=0)) as client,
        closing(RedisQueue(broker.url)) as queue,
    ):
        herald = Herald(Presence(client), ("a",), ("i", "w@a"), tmp_path, 4.0, lambda: False)
        broker.kill()
        herald.tick(0.0)
        broker.start()

        herald.tick(1.0)

        assert queue.workers("a") == [LiveWorker("w@a", "", str(tmp_path))]
