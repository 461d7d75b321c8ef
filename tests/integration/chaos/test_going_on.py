"""Runs that were stopped, failed or damaged go on, and nothing finished is executed again.

Field reports Q26, R05, R09, R12, R15, R28, P28, C07, U10.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentcompass.store import control, sealed
from tests.support.broker import free_port, server_binary
from tests.support.chaos_house import POOLS, House, sleeping
from tests.support.cluster import until
from tests.support.processes import end_tree, marked_with
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration
NAP = f"603.{os.getpid()}"
BOTH = pytest.mark.parametrize("pool", POOLS)


@BOTH
def test_a_cancelled_attempt_is_no_error_keeps_its_evidence_and_alone_is_left(
    house: House, pool: str
) -> None:
    script = {"t2:3": "hang|ok"}
    run, coordinator = house.attended(3, "-k", "3", script=script, pool=pool)
    until(lambda: run.results() == 8 and run.executed() == 9, "only the last one executes")

    assert house.cluster.call("cancel", str(run.dir), *house.broker).code == 0
    assert coordinator.wait(60) == 3
    assert (run.status, run.counts()["error"], run.counts()["evaluated"]) == ("cancelled", 0, 2)
    assert run.report()["extra"]["partial"]["missing"] == 1
    until(
        lambda: any(paths_in(run.dir, "details/*/t2--*/attempt-3/closed-*.cancelled.json")),
        "a mark",
    )

    assert house.resume(run).code == 0
    assert (run.executed(), run.executed("t2", 3), run.counts()["evaluated"]) == (10, 2, 3)
    _resuming_changes_nothing(house, run.dir)
    assert run.check() == []


@pytest.mark.parametrize(
    ("pool", "act"),
    [
        ("prefork", "nested:NAP"),
        ("threads", "run:sleep NAP & setsid sleep NAP & sleep NAP"),
    ],
    ids=POOLS,
)
def test_cancelling_leaves_no_process_of_what_was_executing(
    house: House, pool: str, act: str
) -> None:
    run, coordinator = house.attended(2, script={"t0": act.replace("NAP", NAP)}, pool=pool)
    until(lambda: sleeping(NAP) >= 3 and run.results() == 1, "its processes run")

    assert house.cluster.call("cancel", str(run.dir), *house.broker, "--reason", "dear").code == 0

    assert coordinator.wait(60) == 3
    until(lambda: not marked_with([NAP]), "its processes end", 40)
    assert (run.status, run.results(), run.report()["extra"]["partial"]["missing"]) == (
        "cancelled",
        1,
        1,
    )
    assert control.control_records(run.dir)[-1].reason == "dear"
    assert run.check() == []


def test_a_task_with_an_error_is_run_again_as_a_whole(house: House) -> None:
    run, said = house.run(4, "-k", "3", script={"t1:2": "error|ok"})
    assert said.code == 1, said

    said = house.resume(run, "--rerun", "errored")

    assert said.code == 0, said
    # Where the agent ran cleanly its snapshot saves it: only the verdict is made again.
    assert [run.executed(f"t{number}") for number in range(4)] == [3, 4, 3, 3]
    assert [run.judged(f"t{number}") for number in range(4)] == [3, 6, 3, 3]
    assert (run.counts()["error"], run.check()) == (0, [])
    (kept,) = paths_in(run.dir, "details/*/t1--*/attempt-2/retries/leg-1/result-*.json")
    assert json.loads(kept.read_bytes())["status"] == "run_error"


def test_only_what_has_no_verdict_is_run_again(house: House) -> None:
    judge = {"t7": "no_observation|grade", "t8": "error|grade", "t9": "raise|grade"}
    run, _ = house.run(10, script={"t6": "wrong"}, judge=judge)

    said = house.resume(run, "--rerun", "unscored")

    assert said.code == 0, said
    assert [run.judged(f"t{number}") for number in range(10)] == [1] * 7 + [2] * 3
    assert (run.counts()["evaluated"], run.check()) == (10, [])


def test_what_cannot_be_set_up_is_recorded_once_and_is_not_tried_for_ever(house: House) -> None:
    benchmark = "tests.support.chaos_agents:NeedyBenchmark"
    run, said = house.run(5, "--max-retries", "0", benchmark=benchmark)
    assert said.code == 1, said
    needy = ("t0", "t1")
    before = {task_id: run.result(task_id) for task_id in needy}

    for _ in range(2):
        assert house.resume(run).code == 1

    assert {task_id: run.result(task_id) for task_id in needy} == before
    assert {code for task_id in needy for code in run.codes(task_id)} == {
        "fatal setup setup_failed"
    }
    assert [run.executed(f"t{number}") for number in range(5)] == [0, 0, 1, 1, 1]


def test_an_error_policy_stops_the_run_and_a_laxer_one_goes_on(house: House) -> None:
    may_end = house.cluster.directory / "policy-may-end"
    script = {"t0": "error", "*": f"until:{may_end}"}
    run, coordinator = house.attended(8, "--max-failed-tasks", "1", script=script)
    until(lambda: bool(control.control_records(run.dir)), "it is paused")
    may_end.touch()
    assert coordinator.wait(60) == 3
    assert run.results() < 8

    said = house.resume(run, "--max-failed-tasks", "8", "--timeout", "77")

    assert (said.code, run.executed(), run.check()) == (1, 8, []), said
    policies = [each.policy for each in control.control_records(run.dir) if each.policy]
    (execution,) = [policy.execution for policy in policies]
    assert execution is not None
    assert (execution.max_failed_tasks, execution.run_timeout_s) == (8, 77)


@pytest.mark.parametrize("damage", ["removed", "cut", "blocked"])
def test_a_run_without_its_report_is_not_complete_and_gets_it_again(
    house: House, damage: str
) -> None:
    run, said = house.run(2)
    assert said.code == 0, said
    metrics = run.dir / "metrics.json"
    content = metrics.read_bytes()
    metrics.unlink()
    if damage == "cut":
        metrics.write_bytes(content[:100])
    if damage == "blocked":
        metrics.mkdir()
        assert house.resume(run).code != 0
        metrics.rmdir()

    assert house.resume(run).code == 0
    assert (metrics.read_bytes(), run.executed(), run.status) == (content, 2, "completed")
    assert run.check() == []


@pytest.fixture
def impatient_house(tmp_path: Path) -> Iterator[House]:
    if server_binary() is None:
        pytest.skip("no Redis or Valkey server is installed")
    with House(tmp_path, {"AGENTCOMPASS_GRACE_S": "0.2"}) as made:
        yield made


@pytest.mark.timeout(400)
@BOTH
def test_an_attempt_that_is_handed_back_again_and_again_is_not_condemned(
    impatient_house: House, pool: str
) -> None:
    house = impatient_house
    run = house.detached(1, script={"t0": "hang|hang|hang|hang|ok"}, pool=pool)
    for number in range(1, 5):
        worker = house.worker(pool)
        until(lambda n=number: run.executed() == n, "it is executed")  # type: ignore[misc]
        worker.terminate()
        assert worker.wait(60) == 0

    house.worker(pool)
    run.wait()

    assert (run.codes("t0"), run.executed(), run.check()) == ([], 5, [])


def test_what_a_monitor_forgets_the_directory_still_knows(empty_house: House) -> None:
    house = empty_house
    house.worker()
    run, coordinator = house.attended(4, script={"t3": "hang"})
    address = f"http://127.0.0.1:{(port := free_port())}"
    for _ in range(2):
        flower = house.cluster.start("flower", *house.broker, "--port", str(port))
        until(lambda: _is_up(address), "Flower is up", 60)
        until(lambda: run.results() == 3 and run.executed() == 4, "only one is left")

        status = house.cluster.call("status", str(run.dir), "--json").json
        assert (status["state"], status["attempts_done"], status["attempts_total"]) == (
            "running",
            3,
            4,
        )
        end_tree(flower.pid)
        flower.wait()
    coordinator.terminate()
    assert coordinator.wait(60) == 3


def _is_up(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/healthcheck", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def _resuming_changes_nothing(house: House, run_dir: Path) -> None:
    before = (run_dir / "metrics.json").read_bytes(), sealed.load(run_dir)
    for _ in range(2):
        said = house.cluster.call("resume", str(run_dir), *house.broker)
        assert (said.code, "nothing to do" in said.err) == (0, True), said
    assert ((run_dir / "metrics.json").read_bytes(), sealed.load(run_dir)) == before
