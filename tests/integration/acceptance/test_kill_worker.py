"""One of two workers is killed; resume finishes, and nothing that was finished runs again."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from agentcompass.store.check import check_run
from tests.support.cluster import Cluster, Said, ledger, until
from tests.support.laboratory import Laboratory, Wanted
from tests.support.processes import end_tree
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration

TASKS = 12


def published(run_dir: Path) -> dict[tuple[str, int], str]:
    """Return (task, attempt) -> token of every published result."""
    found = [
        json.loads(path.read_bytes()) for path in paths_in(run_dir, "**/attempt-*/result.json")
    ]
    return {(each["task_id"], each["attempt"]): each["token"] for each in found}


def executed(laboratory: Laboratory) -> Counter[tuple[str, int]]:
    lines = map(json.loads, ledger(laboratory.ledger("killed")))
    return Counter((line["task"], line["attempt"]) for line in lines if line["who"] == "agent")


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_after_a_killed_worker_resume_finishes_and_repeats_no_finished_attempt(
    cluster: Cluster, pool: str
) -> None:
    laboratory = Laboratory(cluster)
    cluster.broker.start()
    victim = cluster.worker(pool, name="victim")
    cluster.worker("threads" if pool == "prefork" else "prefork", name="survivor")
    tasks = [f"t{number}" for number in range(TASKS)]
    wanted = Wanted(tasks=tasks, k=2, agent={"*": "sleep:0.5"})
    run = cluster.start("run", *laboratory.flags("killed", wanted), *laboratory.broker)
    run_dir = interrupted(laboratory, victim.pid, run.pid)
    before, begun = published(run_dir), executed(laboratory)

    said = cluster.call("resume", str(run_dir), *laboratory.broker)

    check_that_nothing_was_repeated(said, laboratory, before, begun)
    assert check_run(run_dir) == []


def interrupted(laboratory: Laboratory, victim: int, coordinator: int) -> Path:
    """Kill the worker and its coordinator in the middle; return the run's directory."""
    cluster = laboratory.cluster
    until(lambda: any(cluster.run_dirs()), "the run is reserved")
    run_dir = cluster.the_run()
    until(lambda: len(published(run_dir)) >= 6, "six results are published")
    end_tree(victim, signal.SIGKILL)
    end_tree(coordinator, signal.SIGKILL)
    return run_dir


def check_that_nothing_was_repeated(
    said: Said,
    laboratory: Laboratory,
    before: dict[tuple[str, int], str],
    begun: Counter[tuple[str, int]],
) -> None:
    run_dir = laboratory.cluster.the_run()
    assert said.code == 0, f"{said}\n{laboratory.cluster.log_text()}"
    assert 6 <= len(before) < TASKS * 2
    assert {key: token for key, token in published(run_dir).items() if key in before} == before
    ran = executed(laboratory)
    assert [key for key in before if ran[key] != 1] == []
    assert len(ran) == len(published(run_dir)) == TASKS * 2
    # Only what was being executed at the kill may have run twice.
    at_work = {key for key in begun if key not in before}
    assert {key for key, times in ran.items() if times > 1} <= at_work
    assert max(ran.values()) <= 2
