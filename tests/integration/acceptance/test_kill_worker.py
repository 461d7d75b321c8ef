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
from tests.support.tree import paths_in, published_in

pytestmark = pytest.mark.integration

TASKS = 12
SLOTS = 4
"""Of both workers together."""


def published(run_dir: Path) -> dict[tuple[str, int], str]:
    """Return (task, attempt) -> token of every published result, while nobody files tasks."""
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
    # Its leases end soon after it; those of the other one outlast whatever holds up the machine.
    victim = cluster.worker(pool, name="victim", env={"AGENTCOMPASS_LEASE_S": "4"})
    cluster.worker("threads" if pool == "prefork" else "prefork", name="survivor")
    all_there, may_end = cluster.directory / "all-there", cluster.directory / "may-end"
    tasks = [f"t{number}" for number in range(TASKS)]
    agent = {f"{task_id}:2": f"until:{may_end}" for task_id in tasks}
    agent |= {f"{task_id}:1": f"until:{all_there}" for task_id in tasks[:SLOTS]}
    wanted = Wanted(tasks=tasks, k=2, agent=agent)
    run = cluster.start("run", *laboratory.flags("killed", wanted), *laboratory.broker)
    until(lambda: executed(laboratory).total() == SLOTS, "both workers are busy")
    all_there.touch()
    until(lambda: executed(laboratory).total() == TASKS + SLOTS, "each has second attempts at work")
    run_dir = cluster.the_run()
    until(lambda: published_in(run_dir) == TASKS, "all first attempts are published")
    end_tree(victim.pid, signal.SIGKILL)
    end_tree(run.pid, signal.SIGKILL)
    before, begun = published(run_dir), executed(laboratory)
    may_end.touch()

    said = cluster.call("resume", str(run_dir), *laboratory.broker)

    check_that_nothing_was_repeated(said, laboratory, before, begun)
    assert check_run(run_dir) == []


def check_that_nothing_was_repeated(
    said: Said,
    laboratory: Laboratory,
    before: dict[tuple[str, int], str],
    begun: Counter[tuple[str, int]],
) -> None:
    run_dir = laboratory.cluster.the_run()
    assert said.code == 0, f"{said}\n{laboratory.cluster.log_text()}"
    assert len(before) == TASKS
    assert {key: token for key, token in published(run_dir).items() if key in before} == before
    ran = executed(laboratory)
    assert [key for key in before if ran[key] != 1] == []
    assert len(ran) == len(published(run_dir)) == TASKS * 2
    # Only what the dead one was executing at the kill ran twice.
    at_work = {key for key in begun if key not in before}
    twice = {key for key, times in ran.items() if times > 1}
    assert twice <= at_work
    assert len(twice) == SLOTS // 2
    assert max(ran.values()) == 2
