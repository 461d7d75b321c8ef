"""HumanEval, end to end: 164 problems, two attempts each, solutions really executed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.scripted_server import ScriptedServer, humaneval_script
from tests.support.cluster import Cluster, report_of, series_of
from tests.support.tree import paths_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

KEY = "canary-0123456789abcdef-canary"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(humaneval_script(solved=100)) as server:
        yield server


def arguments(server: ScriptedServer, results: Path) -> list[str]:
    return [
        "run", "--benchmark", "humaneval", "--harness", "openai_chat", "--model", "scripted",
        "--base-url", server.base_url, "--api-key-env", "SCRIPTED_KEY", "-k", "2",
        "--results-dir", str(results), "--json",
    ]  # fmt: skip


def check_report(run_dir: Path) -> None:
    series = series_of(run_dir)
    covered = {"total": 164, "evaluated": 164, "error": 0, "unavailable": 0, "invalidated": 0}
    assert report_of(run_dir)["evaluation_failed"] is False
    for series_id in ("correct.avg@2", "correct.pass@2"):
        assert series[series_id]["value"] == 100 / 164
        assert series[series_id]["counts"] == covered
        categories = series[series_id]["categories"].values()
        assert sum(each["counts"]["total"] for each in categories) == 164


def test_one_command_scores_exactly_the_100_known_tasks(
    cluster: Cluster, server: ScriptedServer
) -> None:
    said = cluster.call(
        *arguments(server, cluster.results), env={"SCRIPTED_KEY": KEY}, timeout_s=600
    )

    assert said.code == 0, said
    assert len(server.traffic.calls) == 328
    check_report(cluster.the_run())


def test_two_workers_elsewhere_one_per_pool_give_the_same(
    cluster: Cluster, server: ScriptedServer
) -> None:
    cluster.broker.start()
    for pool in ("prefork", "threads"):
        cluster.worker(pool, env={"SCRIPTED_KEY": KEY})

    said = cluster.call(
        *arguments(server, cluster.results), "--broker", cluster.broker.url,
        env={"SCRIPTED_KEY": KEY}, timeout_s=600,
    )  # fmt: skip

    assert said.code == 0, said
    assert len(server.traffic.calls) == 328
    check_report(cluster.the_run())
    workers = {worker_of(path) for path in paths_in(cluster.the_run(), "**/result.json")}
    assert {name.split("@")[0].split("-")[0] for name in workers} == {"prefork", "threads"}


def worker_of(result: Path) -> str:
    return str(json.loads(result.read_bytes())["worker"])
