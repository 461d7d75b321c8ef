"""Secrets planted everywhere, by plug-ins that give away all they get: none of them comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.canaries import CANARIES, VARIABLES, leaks, leaks_in_files
from tests.support.cluster import Cluster, Said, until
from tests.support.tree import paths_in
from tests.support.watching import FlowerApi, Monitor, a_flower, everything_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

TASKS = ("plain", "raises", "retries", "judge")
CONTENT = "password=swordfish; token: abc; api_key: missing; https://u:p@host/?api_key=x"


def request(cluster: Cluster, *, literal: bool) -> dict[str, object]:
    """Return a request with a secret in every place, by reference or written out."""

    def secret(variable: str) -> str:
        return VARIABLES[variable] if literal else f"${{{variable}}}"

    seen = str(cluster.directory / "seen.txt")
    tools = [{"name": "search", "headers": [{"X-Api-Key": secret("CANARY_NESTED")}]}]
    judges = [{"deep": [{"api_key": secret("CANARY_JUDGE"), "max_tokens": 4096}]}]
    host = f"https://me:{secret('CANARY_USER')}@127.0.0.1:9"
    return {
        "benchmark": {
            "id": "tests.support.leaking:LeakingBenchmark",
            "params": {"tasks": list(TASKS), "judges": judges},
        },
        "harness": {
            "id": "tests.support.leaking:LeakingHarness",
            "params": {
                "tools": tools, "env": {"AUTH_TOKEN": secret("CANARY_ENV")}, "seen": seen,
            },
        },
        "model": {
            "id": "m",
            "base_url": f"{host}/v1?api_key={secret('CANARY_QUERY')}&page=2",
            "api_key": secret("CANARY_KEY"),
            "headers": {"Authorization": f"Bearer {secret('CANARY_HEADER')}", "Accept": "a/b"},
        },
        "execution": {"attempts": {"k": 1}, "max_retries": 1},
        "metadata": {"note": CONTENT.partition("; https")[0]},
    }  # fmt: skip


def run(cluster: Cluster, *more: str, literal: bool) -> Said:
    file = cluster.directory / "request.json"
    file.write_text(json.dumps(request(cluster, literal=literal)))
    place = ("--results-dir", str(cluster.results), "--run-id", "night")
    return cluster.call("run", "--config", str(file), *place, *more)


@dataclass
class Seen:
    """Everything that was to be seen of one run from outside."""

    cluster: Cluster
    texts: dict[str, str] = field(default_factory=dict)

    def look(self, when: str, flower: FlowerApi) -> None:
        self.texts[f"redis, {when}"] = everything_in(self.cluster.broker.client)
        attempts = flower.attempts()
        pages = ["/", "/workers", "/tasks", "/broker", "/metrics", "/api/workers?refresh=1"]
        pages += ["/api/tasks", "/api/queues/length"]
        pages += [f"/api/task/info/{uuid}" for uuid in attempts]
        pages += [f"/task/{uuid}" for uuid in attempts]
        names = json.loads(flower.page("/api/workers") or "{}")
        pages += [f"/worker/{name}" for name in names]
        self.texts[f"flower, {when}"] = "\n".join(map(flower.page, pages))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with Cluster(tmp_path_factory.mktemp("canaries"), VARIABLES) as cluster:
        cluster.broker.start()
        cluster.broker.protect(CANARIES["broker"])
        seen, flower = Seen(cluster), a_flower(cluster)
        with closing(Monitor(cluster.broker.client)) as monitor:
            said = run(cluster, "--detach", "--broker", cluster.broker.url, literal=False)
            assert said.code == 0, said
            seen.texts["run"] = str(said)
            seen.look("waiting", flower)
            for pool in ("prefork", "threads"):
                cluster.worker(pool, more=("--log-level", "DEBUG"))
            until((cluster.directory / "seen.txt").exists, "an agent is at work")
            seen.look("running", flower)
            until(lambda: any(paths_in(cluster.results, "**/retry-1")), "one is tried again")
            seen.look("retrying", flower)
            until((cluster.the_run() / "summary.md").exists, "the run ends")
            seen.look("finished", flower)
            seen.texts["redis, always"] = monitor.text()
        place = str(cluster.the_run())
        for command in ("report", "status", "check"):
            seen.texts[command] = str(cluster.call(command, place, "--json"))
        for task in TASKS:
            seen.texts[f"show {task}"] = str(cluster.call("show", place, task, "1", "--full"))
        for name in ("jsonl", "agentcompass-1.0"):
            more = ("-o", str(cluster.directory / "copy")) if name.startswith("agent") else ()
            seen.texts[name] = str(cluster.call("export", place, "--format", name, *more))
        yield seen


def test_the_plug_ins_had_every_secret_in_the_clear(seen: Seen) -> None:
    told = (seen.cluster.directory / "seen.txt").read_bytes()
    not_theirs = {"broker", "message_key"}

    found = {leak.partition(" ")[0] for leak in leaks("memory", told)}

    assert found == CANARIES.keys() - not_theirs


def test_no_secret_is_in_the_results_folder(seen: Seen) -> None:
    assert leaks_in_files(seen.cluster.results) == []
    assert leaks_in_files(seen.cluster.directory / "copy") == []


def test_no_secret_is_in_a_log_at_debug_or_in_what_is_printed(seen: Seen) -> None:
    assert leaks("logs", seen.cluster.log_text().encode()) == []
    assert "as a library would" in seen.cluster.log_text()


def test_no_secret_is_in_redis_flower_or_the_output_of_a_command(seen: Seen) -> None:
    found = [leak for where, text in seen.texts.items() for leak in leaks(where, text.encode())]

    assert found == []
    assert all(seen.texts.values())


def test_names_that_only_sound_like_secrets_and_neighbours_are_untouched(seen: Seen) -> None:
    info = json.loads((seen.cluster.the_run() / "run_info.json").read_bytes())
    result = json.loads(
        paths_in(seen.cluster.the_run(), "**/plain--*/*/result.json")[0].read_bytes()
    )

    asked = info["request"]
    assert asked["benchmark"]["params"]["judges"][0]["deep"][0]["max_tokens"] == 4096
    assert asked["model"]["headers"]["Accept"] == "a/b"
    assert asked["model"]["base_url"].endswith("@127.0.0.1:9/v1?api_key=${CANARY_QUERY}&page=2")
    assert asked["metadata"]["note"] == CONTENT.partition("; https")[0]
    assert result["meta"]["harness"]["telemetry"]["max_tokens"] == 4096
    assert "PLAIN=plain" in result["artifacts"]["log"]


def test_literal_secrets_of_a_launch_come_out_nowhere_either(tmp_path: Path) -> None:
    unset = {name: "" for name in VARIABLES if name.startswith("CANARY")}
    with Cluster(tmp_path, {**VARIABLES, **unset}) as cluster:
        requests = [{"name": name, **request(cluster, literal=True)} for name in ("one", "two")]
        suite = tmp_path / "suite.json"
        suite.write_text(json.dumps({"version": 1, "name": "suite", "requests": requests}))
        place = ("--results-dir", str(cluster.results))
        dry = cluster.call("launch", str(suite), *place, "--dry-run")
        said = cluster.call("launch", str(suite), *place, "--verbose", "--json")
        (record,) = paths_in(cluster.results / ".launches", "*.json")
        again = cluster.call("resume", str(record), "--rerun", "errored")

        told = (tmp_path / "seen.txt").read_bytes()
        (tmp_path / "seen.txt").unlink()
        suite.unlink()
        assert (dry.code, said.code, again.code) == (0, 1, 2), f"{dry}{said}{again}"
        assert "not set: AGENTCOMPASS_" in again.err
        assert "model_key" in str(leaks("memory", told))
        assert leaks("output", f"{dry}{said}{again}".encode()) == []
        assert leaks_in_files(tmp_path) == []


def test_literal_secrets_of_a_local_run_come_out_nowhere_either(tmp_path: Path) -> None:
    unset = {name: "" for name in VARIABLES if name.startswith("CANARY")}
    with Cluster(tmp_path, {**VARIABLES, **unset}) as cluster:
        said = run(cluster, "--verbose", "--json", literal=True)

        told = (tmp_path / "seen.txt").read_bytes()
        (tmp_path / "seen.txt").unlink()
        (tmp_path / "request.json").unlink()
        assert said.code == 1, said
        assert "model_key" in str(leaks("memory", told))
        assert leaks("output", str(said).encode()) == []
        assert leaks_in_files(tmp_path) == []
