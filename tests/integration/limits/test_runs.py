"""Whole runs under limits and bounds, as a user has them: the command line, Redis, real workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster import Cluster, Said, until
from tests.support.limited import (
    Counting,
    Questions,
    after,
    is_paused,
    model,
    queues,
    results,
    waiting,
)

pytestmark = pytest.mark.integration
POOLS = pytest.mark.parametrize("pool", ["prefork", "threads"])
CALLS = {"model": {"concurrent_calls": 2}}
PRICES = {"input_usd_per_mtok": 1_000_000.0, "output_usd_per_mtok": 0.0}


def run(cluster: Cluster, config: str, *more: str) -> Said:
    flags = ("--broker", cluster.broker.url, "--config", config, *more)
    return cluster.call("run", *flags, timeout_s=300)


def test_two_runs_at_one_endpoint_share_it_however_large_the_first_one_is(
    cluster: Cluster,
) -> None:
    script = Counting(delay_s=0.05, held="big")
    with model(script) as server:
        big, small = Questions(cluster, server, 40), Questions(cluster, server, 8)
        limits = {"limits": CALLS}
        cluster.worker("threads", concurrency=64)
        both = []
        for name, questions, waits in (("big", big, 40 - 2), ("small", small, 8)):
            config = questions.config(name, execution=limits)
            both.append(cluster.start("run", "--broker", cluster.broker.url, "--config", config))
            until(lambda n=waits: n in queues(cluster), f"{name} waits")  # type: ignore[misc]

        script.let_go.set()

        assert [process.wait(60) for process in both] == [0, 0]
        asked = [call.prompt.split()[0] for call in server.traffic.calls]
    begin = asked.index("small")
    end = len(asked) - asked[::-1].index("small")
    assert server.traffic.most_active == 2
    # In turns: as many of the one as of the other, and those that were let in with the first.
    assert asked[begin:end].count("big") <= 8 + 2


def test_requests_per_minute_hold_over_all_workers_and_cancelling_ends_the_wait(
    cluster: Cluster,
) -> None:
    with model(Counting(delay_s=0.0)) as server:
        questions = Questions(cluster, server, 14)
        # Whoever is killed, because the machine is busy, gives nothing back.
        patient = {"AGENTCOMPASS_STOP_S": "60"}
        for pool in ("threads", "prefork"):
            cluster.worker(pool, concurrency=4, env=patient)
        limits = {"limits": {"model": {"requests_per_minute": 10}}}
        running = cluster.start(
            "run", "--broker", cluster.broker.url,
            "--config", questions.config("rpm", execution=limits),
        )  # fmt: skip
        until(lambda: len(server.traffic.calls) == 10, "ten were asked")
        until(lambda: waiting(cluster) == 4, "the others wait")

        cluster.call(
            "cancel",
            str(questions.run_dir("rpm")),
            env={"AGENTCOMPASS_BROKER_URL": cluster.broker.url},
        )

        assert running.wait(40) == 3
        assert len(server.traffic.calls) == 10
        assert waiting(cluster) == 0


def test_attempts_of_a_run_at_once_and_no_slot_waits_for_them(cluster: Cluster) -> None:
    script = Counting(held="narrow")
    with model(script) as server:
        narrow, wide = Questions(cluster, server, 12), Questions(cluster, server, 6)
        cluster.worker("prefork", concurrency=4)
        first = cluster.start(
            "run", "--broker", cluster.broker.url,
            "--config", narrow.config("narrow", execution={"task_concurrency": 2}),
        )  # fmt: skip
        until(lambda: len(server.traffic.calls) >= 2, "the narrow run began")

        # It would never end if those that wait occupied the two slots that are left.
        assert run(cluster, wide.config("wide")).code == 0
        assert len(server.traffic.calls) == 2 + 6
        script.let_go.set()
        assert first.wait(60) == 0

        assert len(server.traffic.calls) == 18
    assert script.most_held == 2


def test_environments_of_a_kind_at_once(cluster: Cluster) -> None:
    with model(Counting(delay_s=0.2, together=3)) as server:
        questions = Questions(cluster, server, 10)
        for _ in range(2):
            cluster.worker("threads", concurrency=5)
        limits = {"limits": {"concurrent_environments": 3}}

        assert run(cluster, questions.config("rooms", execution=limits)).code == 0

        assert server.traffic.most_active == 3


@pytest.mark.timeout(400)
@POOLS
def test_a_flushed_redis_loses_slots_and_no_result(pool: str, cluster: Cluster) -> None:
    with model(Counting(delay_s=0.2)) as server:
        questions = Questions(cluster, server, 20)
        for _ in range(2):
            cluster.worker(pool, concurrency=3)
        config = questions.config("flushed", execution={"limits": CALLS, "task_concurrency": 5})
        flush: Any = cluster.broker.client.flushall
        after(lambda: len(server.traffic.calls) >= 6, flush)

        done = run(cluster, config)

        assert done.code == 0, done
    assert len(results(questions.run_dir("flushed"))) == 20


def test_a_redis_that_is_away_for_long_does_not_stop_the_calls(cluster: Cluster) -> None:
    script = Counting(held_calls=range(1, 2))
    with model(script) as server:
        questions = Questions(cluster, server, 4)
        cluster.worker("threads", concurrency=4)
        config = questions.config("away", execution={"limits": {"model": {"concurrent_calls": 1}}})
        running = cluster.start("run", "--broker", cluster.broker.url, "--config", config)
        until(lambda: len(server.traffic.calls) == 1, "the first was asked")
        until(lambda: waiting(cluster) == 3, "the others wait")
        cluster.broker.kill()
        script.let_go.set()

        until(lambda: len(server.traffic.calls) == 4, "the others were asked all the same")
        cluster.broker.start()

        assert running.wait(90) == 0


class TestBudgets:
    """A question costs a few tokens at a dollar each; the tenth waits until the run is stopped."""

    COUNT = 15

    def script(self, **more: Any) -> Counting:
        return Counting(delay_s=0.0, held_calls=range(10, self.COUNT + 1), **more)

    def stopped(
        self, cluster: Cluster, script: Counting, server: Any, *more: str, **execution: Any
    ) -> Said:
        self.questions = Questions(cluster, server, self.COUNT)
        cluster.worker("threads", concurrency=1)
        after(lambda: is_paused(cluster), script.let_go.set)
        config = self.questions.config(
            "spending",
            model={"id": "m", "base_url": server.base_url, "prices": PRICES},
            execution=execution,
        )
        return run(cluster, config, *more)

    def test_money_stops_the_run_and_a_resume_with_more_goes_on(self, cluster: Cluster) -> None:
        with model(script := self.script()) as server:
            said = self.stopped(cluster, script, server, budget={"cost_usd": 5.0})
            run_dir = str(self.questions.run_dir("spending"))
            asked = len(server.traffic.calls)
            status = cluster.call("status", run_dir, "--json").json
            again = cluster.call("resume", run_dir, "--broker", cluster.broker.url)
            more = ("--budget-usd", "100000")
            on = cluster.call("resume", run_dir, "--broker", cluster.broker.url, *more)

        assert said.code == 3
        assert "budget reached" in said.err
        assert 0 < asked <= 10
        assert (status["state"], "of 5 USD" in status["reason"]) == ("paused", True)
        assert (again.code, "budget reached" in again.err) == (2, True)
        assert on.code == 0, on
        assert len(server.traffic.calls) == self.COUNT

    def test_a_partial_report_is_left(self, cluster: Cluster) -> None:
        with model(script := self.script()) as server:
            said = self.stopped(cluster, script, server, "--json", budget={"tokens": 5})

        report = json.loads((self.questions.run_dir("spending") / "metrics.json").read_bytes())
        assert report["extra"]["partial"]["status"] == "paused"
        finished = json.loads(said.out.splitlines()[-1])
        assert finished["exit_code"] == 3
        assert "tokens are spent" in finished["reason"]

    def test_a_detached_run_is_stopped_by_whoever_watches_it(self, cluster: Cluster) -> None:
        with model(script := self.script()) as server:
            self.stopped(cluster, script, server, "--detach", budget={"wall_time_s": 2.0})
            run_dir = self.questions.run_dir("spending")

            watched = cluster.call("watch", str(run_dir), "--broker", cluster.broker.url)

        assert watched.code == 3
        report = json.loads((run_dir / "metrics.json").read_bytes())
        assert report["extra"]["partial"]["missing"] > 0

    def test_so_many_errors_stop_the_run(self, cluster: Cluster) -> None:
        with model(script := self.script(refuse_call=-1)) as server:
            said = self.stopped(cluster, script, server, error_policy={"max_errors": 3})

        failed = [each for each in results(self.questions.run_dir("spending")) if each["issues"]]
        assert said.code == 3
        assert "max_errors is 3" in said.err
        assert 3 <= len(failed) <= 10
