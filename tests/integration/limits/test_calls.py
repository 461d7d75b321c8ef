"""The calls of a model endpoint, limited over several real workers."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.support.cluster import Cluster, report_of
from tests.support.limited import Counting, Questions, after, model, results, telemetry, waiting
from tests.support.scripted_server import Answer, Call, ScriptedServer, rate_limited

pytestmark = pytest.mark.integration
POOLS = pytest.mark.parametrize("pool", ["prefork", "threads"])
FOUR = {"limits": {"model": {"concurrent_calls": 4}}}


def all_right(cluster: Cluster, name: str) -> bool:
    (run_dir,) = (each for each in cluster.run_dirs() if each.name == name)
    return report_of(run_dir)["series"][0]["value"] == 1.0


@POOLS
def test_forty_attempts_on_three_workers_never_ask_more_than_four_at_once(
    pool: str, cluster: Cluster
) -> None:
    script = Counting(held_calls=range(1, 5))
    with model(script) as server:
        questions = Questions(cluster, server)
        for _ in range(3):
            cluster.worker(pool, concurrency=2)
        after(lambda: len(server.traffic.calls) >= 4 and waiting(cluster) > 0, script.let_go.set)

        done = cluster.call(
            "run", "--broker", cluster.broker.url,
            "--config", questions.config("four", execution=FOUR),
        )  # fmt: skip

        assert done.code == 0, done
        assert server.traffic.most_active == 4
        assert len(server.traffic.calls) == 40
    assert all_right(cluster, "four")
    waits = [each["slot_wait_s"] for each in telemetry(questions.run_dir("four"))]
    assert len(waits) == 40
    assert max(waits) > 0


@POOLS
def test_a_killed_worker_takes_no_slot_with_it(pool: str, cluster: Cluster) -> None:
    with model(Counting(delay_s=0.5, together=4)) as server:
        questions = Questions(cluster, server)
        doomed, *_ = [cluster.worker(pool, concurrency=2) for _ in range(3)]
        after(lambda: server.traffic.active == 4, lambda: doomed.send_signal(signal.SIGKILL))

        done = cluster.call(
            "run", "--broker", cluster.broker.url,
            "--config", questions.config("killed", execution=FOUR),
        )  # fmt: skip

        assert done.code == 0, done
        assert server.traffic.most_active == 4
    assert len(results(questions.run_dir("killed"))) == 40
    assert all_right(cluster, "killed")
    assert not list(cluster.broker.client.hkeys(_holders(cluster)))


def _holders(cluster: Cluster) -> str:
    (name,) = list(cluster.broker.client.scan_iter("ac:at:model:*:holders")) or ["none"]
    return name if isinstance(name, str) else name.decode()


@POOLS
def test_one_refused_call_slows_everybody_down_and_fails_nobody(
    pool: str, cluster: Cluster
) -> None:
    # The three that are there with it are answered when everybody has been told.
    script = Counting(delay_s=0.1, refuse_call=12, held_calls=range(9, 12))
    with model(script) as server:
        questions = Questions(cluster, server)
        for _ in range(3):
            cluster.worker(pool, concurrency=2)
        after(lambda: _is_slowed_down(cluster), script.let_go.set)

        done = cluster.call(
            "run", "--broker", cluster.broker.url,
            "--config", questions.config("busy", execution=FOUR),
        )  # fmt: skip

        assert done.code == 0, done
        assert len(server.traffic.calls) == 41
    refused_at_s = script.refused_at_s
    assert refused_at_s is not None
    later = [at_s - refused_at_s for at_s, _ in script.arrivals if at_s > refused_at_s]
    assert min(later) > 1.9
    assert all_right(cluster, "busy")
    assert sum(each["model_retries"] for each in telemetry(questions.run_dir("busy"))) == 1


def _is_slowed_down(cluster: Cluster) -> bool:
    client = cluster.broker.client
    states = client.scan_iter("ac:at:model:*:state")
    return any(client.hexists(name, "not_before") for name in states)


class Narrow:
    """A server that bears three calls at once and refuses the fourth; three wait until it is there."""

    server: ScriptedServer

    def __init__(self) -> None:
        self.is_crowded = threading.Event()

    def answer(self, call: Call) -> Answer:
        if self.server.traffic.active > 3:
            self.is_crowded.set()
            return rate_limited("0")
        self.is_crowded.wait()
        return Answer(call.prompt.split()[-1], delay_s=0.1)


def test_an_adaptive_limit_finds_out_what_the_server_bears_and_leaves_its_history(
    cluster: Cluster,
) -> None:
    script = Narrow()
    with ScriptedServer(script) as server:
        script.server = server
        questions = Questions(cluster, server, 24)
        for pool in ("threads", "prefork"):
            cluster.worker(pool, concurrency=6)
        limits = {"limits": {"model": {"concurrent_calls": 12, "adaptive": True}}}

        done = cluster.call(
            "run", "--broker", cluster.broker.url,
            "--config", questions.config("adaptive", execution=limits),
        )  # fmt: skip

        assert done.code == 0, done
        assert server.traffic.most_active < 12
    assert all_right(cluster, "adaptive")
    seen = [
        limit for each in telemetry(questions.run_dir("adaptive")) for _, limit in each["limit"]
    ]
    assert len(seen) >= 24
    assert min(seen) < 4  # it was halved
    assert max(seen) >= 4
