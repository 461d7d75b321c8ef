"""Workers, machines and coordinators that die: only what was executing is paid for again.

Field reports Q11, R10, R25, C02, C13.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from agentcompass.store import attempts
from tests.support.chaos_house import POOLS, House, sleeping
from tests.support.cluster import until
from tests.support.processes import end_tree, freeze, marked_with, thaw
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration
NAP = f"604.{os.getpid()}"
BOTH = pytest.mark.parametrize("pool", POOLS)


@BOTH
def test_attempts_of_a_dead_machine_start_elsewhere_though_nobody_attends(
    empty_house: House, pool: str
) -> None:
    house = empty_house
    first = house.worker(pool)
    run = house.detached(4, script={"t0": "sleep:600|ok", "t1": "sleep:600|ok"}, pool=pool)
    until(lambda: run.executed() == 2, "two attempts execute")
    house.awaits(house.worker(pool))
    until(lambda: run.results() == 2, "the other one does the others")

    end_tree(first.pid)

    run.wait()
    assert [run.executed(f"t{number}") for number in range(4)] == [2, 2, 1, 1]
    assert (run.status, run.check()) == ("completed", [])


@BOTH
def test_a_machine_that_stood_still_may_not_publish_over_its_successor(
    empty_house: House, pool: str
) -> None:
    house = empty_house
    sleeper = house.worker(pool, slots=1)
    house.awaits(sleeper)
    may_end = house.cluster.directory / "may-end"
    run = house.detached(1, script={"t0": f"until:{may_end}|ok"}, pool=pool)
    until(lambda: run.executed() == 1, "the attempt executes")
    frozen = freeze(sleeper.pid)
    house.worker(pool, slots=1)
    run.wait()
    token = run.result("t0").token

    may_end.touch()
    thaw(frozen)

    directory = _attempt_dir(run.dir, "t0")
    until(lambda: any(paths_in(directory / "retries", "execution-*")), "the late one has seen it")
    checkpoint = attempts.load_checkpoint(directory)
    assert run.result("t0").token == token
    assert checkpoint is not None
    assert checkpoint.scheduler.token == token
    assert (run.executed(), run.check()) == (2, [])


@pytest.mark.parametrize(("pool", "nap_s"), [("prefork", 8), ("threads", 16)])
def test_a_late_end_of_a_try_that_was_given_up_changes_nothing(
    house: House, pool: str, nap_s: int
) -> None:
    """The call cannot be interrupted; in a thread it returns when the next try has answered."""
    run, said = house.run(
        *(1, "--config", str(_policy(house, retry_patterns=["run_timeout"])), "--timeout", "5"),
        script={"t0": f"c_nap:{nap_s}|nonce"}, judge={"t0": "score:1"}, pool=pool,
    )  # fmt: skip
    result = run.result("t0")

    assert said.code == 0, said
    assert (len(str(result.final_answer)), result.retry_count, run.executed()) == (32, 1, 2)
    time.sleep(max(0, nap_s - 10))
    assert (run.result("t0"), run.check()) == (result, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_an_agent_started_ends_with_its_worker_or_with_the_next_one(
    empty_house: House, number: signal.Signals
) -> None:
    house = empty_house
    worker = house.worker(machine="one")
    run = house.detached(1, script={"t0": f"nested:{NAP}|ok"})
    until(lambda: sleeping(NAP) >= 3, "the agent's processes run")

    worker.send_signal(number)
    if number != signal.SIGKILL:
        worker.wait(60)
        until(lambda: not marked_with([NAP]), "they end with it")
    house.worker(machine="one")

    until(lambda: not marked_with([NAP]), "the agent's processes end", 40)
    run.wait()
    assert run.check() == []


def test_everything_but_the_directory_may_get_lost(empty_house: House) -> None:
    house = empty_house
    worker = house.worker(slots=1)
    script = {f"t{number}": "sleep:0.8" for number in range(10)}
    run, coordinator = house.attended(10, script=script)
    until(lambda: run.results() >= 5, "half of it is done")

    for process in (coordinator, worker):
        end_tree(process.pid)
        process.wait()
    done = run.results()
    house.restart_redis(0, with_its_data=False)
    resumed = house.cluster.start("resume", str(run.dir), *house.broker)
    until(lambda: f"{done}/10 attempts" in house.log_of(resumed), "it says what is done")
    house.worker(slots=1)

    assert resumed.wait(120) == 0
    assert 10 <= run.executed() <= 11
    assert (run.counts()["evaluated"], run.check()) == (10, [])


def test_coordinators_resumes_and_watchdogs_on_one_run_execute_it_once(
    empty_house: House,
) -> None:
    house = empty_house
    script = {f"t{number}": "sleep:0.4" for number in range(12)}
    run, coordinator = house.attended(12, "-k", "2", script=script)
    house.awaits(house.worker(slots=2), house.worker(slots=2), house.worker(slots=2))
    others = [
        house.cluster.start(command, str(run.dir), *house.broker)
        for command in ("resume", "resume", "watch", "watch")
    ]

    codes = [process.wait(timeout=120) for process in (coordinator, *others)]

    assert codes == [0] * 5, house.cluster.log_text()
    assert (run.executed(), run.results(), run.check()) == (24, 24, [])
    assert not any(paths_in(run.dir, "**/retries/execution-*"))


def test_a_crash_between_agent_and_verdict_repeats_only_the_verdict(empty_house: House) -> None:
    house = empty_house
    run = house.detached(1, judge={"t0": "hang|grade"})
    worker = house.worker(slots=1)
    until(lambda: run.judged() == 1, "the judge is at work")

    end_tree(worker.pid)
    house.worker(slots=1)
    run.wait()

    assert (run.executed(), run.judged(), run.check()) == (1, 2, [])


def _attempt_dir(run_dir: Path, task_id: str) -> Path:
    result = attempts.result_of(run_dir, task_id, 1)
    assert result is not None
    return result.parent


def _policy(house: House, **execution: object) -> Path:
    path = house.cluster.directory / "policy.yaml"
    path.write_text(json.dumps({"execution": execution}))
    return path
