from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import server_binary
from tests.support.cluster import Cluster, until
from tests.support.laboratory import Laboratory, Wanted
from tests.support.stubs import executions
from tests.support.watching import FlowerApi, Monitor, a_flower, everything_in

KEY = "sk-canary-4f1d0c9b8a7e6f5d"
PASSWORD = "canary-broker-password-71c2"
LONG_ID = "long-" + "x" * 295


@pytest.fixture(autouse=True, scope="session")
def _a_server_is_there() -> None:
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """One broker and one worker for all tests here; each run has a name of its own."""
    with Cluster(tmp_path_factory.mktemp("laboratory")) as cluster:
        cluster.broker.start()
        cluster.worker("prefork")
        yield Laboratory(cluster)


@dataclass
class Watched:
    """A run with a secret in it, and everything that was seen of it from outside."""

    cluster: Cluster
    flower: FlowerApi
    messages: Sequence[bytes]
    """Of its attempts, as they waited in their lane."""
    wanted: Wanted
    seen: dict[str, str] = field(default_factory=dict)
    """Where, and when -> all that was to be seen there then."""
    waiting: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What Flower listed before there was a worker."""

    @property
    def run_dir(self) -> Path:
        return self.cluster.the_run()

    def look(self, when: str) -> None:
        self.seen[f"redis, {when}"] = everything_in(self.cluster.broker.client)
        attempts = self.flower.attempts()
        pages = ["/", "/tasks", "/broker", "/api/workers?refresh=1", "/metrics"]
        pages += [f"/api/task/info/{uuid}" for uuid in attempts]
        self.seen[f"flower, {when}"] = "\n".join([str(attempts), *map(self.flower.page, pages)])


@pytest.fixture(scope="package")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with Cluster(tmp_path_factory.mktemp("watched"), {"CANARY_KEY": KEY}) as cluster:
        cluster.broker.start()
        cluster.broker.protect(PASSWORD)
        with closing(Monitor(cluster.broker.client)) as monitor:
            watched = dispatched(cluster)
            planned = len(watched.wanted.tasks) * watched.wanted.k
            until(lambda: len(watched.flower.attempts()) >= planned, "Flower lists all of them")
            watched.waiting = watched.flower.attempts()
            watched.look("waiting")
            for pool in ("prefork", "threads"):
                cluster.worker(pool, concurrency=1, more=("--log-level", "DEBUG"))
            ledger = cluster.directory / "ledger.jsonl"
            # The one worker meets the first of them; so the other one does all the rest.
            for n in (1, 2):
                there = f"slow attempt {n} is at work"
                until(lambda n=n: executions(ledger, "agent", "slow", n) > 0, there)  # type: ignore[misc]
            watched.look("running")
            may_end(cluster).touch()
            until((watched.run_dir / "summary.md").exists, "the run ends")
            until(lambda: states(watched.flower) == {"SUCCESS"}, "Flower heard of all ends")
            watched.look("finished")
            watched.seen["redis, always"] = monitor.text()
        yield watched


def states(flower: FlowerApi) -> set[str]:
    return {task["state"] for task in flower.attempts().values()}


def dispatched(cluster: Cluster) -> Watched:
    """Start Flower, and dispatch a run while there is no worker yet."""
    flower = a_flower(cluster)
    agent = {"raises": "secret", "says": "says_secret", "logs": "logs_secret"}
    agent["slow"] = f"until:{may_end(cluster)}"
    wanted = Wanted(
        tasks=(LONG_ID, "HumanEval/39", "ok", *agent),
        k=2,
        agent=agent,
        more=("--api-key-env", "CANARY_KEY", "--run-id", "night"),
    )
    flags = wanted.flags(cluster.directory / "ledger.jsonl")
    name = "n" * (
        160 - len("/m_tests.support.stubs_StubBenchmark_tests.support.stubs_StubHarness/night")
    )
    place = ("--results-dir", str(cluster.results), "--run-name", name)
    said = cluster.call("run", *flags, *place, "--detach", "--broker", cluster.broker.url)
    assert said.code == 0, said
    return Watched(cluster, flower, messages_in(cluster), wanted, {"run, its output": str(said)})


def may_end(cluster: Cluster) -> Path:
    return cluster.directory / "may-end"


def messages_in(cluster: Cluster) -> Sequence[bytes]:
    client = cluster.broker.client
    lists = [key for key in client.scan_iter() if client.type(key) == b"list"]
    found = [raw for key in lists for raw in client.lrange(key, 0, -1)]
    raws = [raw for raw in found if isinstance(raw, bytes)]
    return [raw for raw in raws if json.loads(raw)["headers"]["task"] == "eval.attempt"]


def arguments_of(message: bytes) -> Sequence[Any]:
    """Return our own arguments of a message."""
    args, kwargs, _ = json.loads(base64.b64decode(json.loads(message)["body"]))
    assert kwargs == {}
    return list(args)
