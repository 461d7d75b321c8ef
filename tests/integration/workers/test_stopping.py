"""How executions end from outside: shutdown, cancellation, deadlines, refusals."""

from __future__ import annotations

import json
import signal
import time
from datetime import UTC, datetime

import pytest

from agentcompass.coordinator.ports import RunAddress
from agentcompass.models.run_info import AttemptRef, ControlRecord
from agentcompass.store import control
from tests.support.processes import children
from tests.support.tree import paths_in
from tests.support.worker_lab import HELD, WorkerLab, is_running, kill_tree, ledger, let_go, until
from workers.serving.options import Pool

pytestmark = pytest.mark.integration
POOLS = pytest.mark.parametrize("pool", ["prefork", "threads"])


def cancel(run: RunAddress, *attempts: AttemptRef) -> None:
    def record(leg: int) -> ControlRecord:
        return ControlRecord(leg=leg, action="cancel", attempts=attempts, at=datetime.now(UTC))

    control.append(run.run_dir, record)


@POOLS
def test_a_warm_shutdown_lets_attempts_finish(lab: WorkerLab, pool: Pool) -> None:
    run = lab.run(6, s0=HELD, s1=HELD)
    lab.dispatch(run, 6)
    worker = lab.worker(pool, AGENTCOMPASS_GRACE_S="600")
    until(lambda: len(ledger(run, "start")) == 2 and lab.queue.workers("default"))

    worker.terminate()
    until(lambda: not lab.queue.workers("default"))  # it has heard
    let_go(run)

    assert worker.wait(40) == 0
    assert len(ledger(run, "end")) == 2
    lab.worker(), lab.finalizer()
    until(lambda: ledger(run, "finalize"))
    assert len(ledger(run, "start")) == 6


@POOLS
def test_after_the_grace_attempts_are_handed_back(lab: WorkerLab, pool: Pool) -> None:
    run = lab.run(2, s0={"seconds": 600}, s1={"seconds": 600})
    lab.dispatch(run, 2)
    worker = lab.worker(pool)
    until(lambda: len(ledger(run, "start")) == 2)

    worker.terminate()

    assert worker.wait(40) == 0
    assert len(ledger(run, "stopped")) == 2
    assert len(lab.queue.holdings(run).queued) == 2
    assert lab.queue.holdings(run).leased == frozenset()


def test_a_second_request_to_stop_does_not_wait_for_the_grace(lab: WorkerLab) -> None:
    run = lab.run(1, s0={"seconds": 600})
    lab.dispatch(run, 1)
    worker = lab.worker(AGENTCOMPASS_GRACE_S="600")
    until(lambda: ledger(run, "start") and lab.queue.workers("default"))

    worker.terminate()
    until(lambda: not lab.queue.workers("default"))  # it has heard
    worker.terminate()

    assert worker.wait(40) == 0
    assert ledger(run, "stopped") == ["stopped 0 handed_back"]


@POOLS
def test_a_cancelled_run_stops_what_executes(lab: WorkerLab, pool: Pool) -> None:
    run = lab.run(2, s0={"seconds": 600}, s1={"seconds": 600})
    lab.dispatch(run, 2)
    lab.worker(pool, AGENTCOMPASS_CONTROL_S="600")
    until(lambda: len(ledger(run, "start")) == 2)
    time.sleep(0.5)

    cancel(run)
    lab.queue.nudge(run)

    until(lambda: len(ledger(run, "stopped")) == 2, 40)
    assert {line.split()[2] for line in ledger(run, "stopped")} == {"cancelled"}


def test_one_attempt_is_cancelled_by_name_without_a_nudge(lab: WorkerLab) -> None:
    run = lab.run(2, s0={"seconds": 600}, s1={"seconds": 600})
    lab.dispatch(run, 2)
    lab.worker()
    until(lambda: len(ledger(run, "start")) == 2)

    cancel(run, AttemptRef(task_id="task-1", attempt=1))

    until(lambda: ledger(run, "stopped"), 40)
    assert ledger(run, "stopped") == ["stopped 1 cancelled"]


def test_a_child_that_misses_its_hard_deadline_is_killed_with_a_note(lab: WorkerLab) -> None:
    run = lab.run(1, s0={"seconds": 600, "deadline": 3, "do": "child"})
    lab.dispatch(run, 1)
    lab.worker(), lab.finalizer()

    until(lambda: ledger(run, "finalize"))

    note = json.loads(paths_in(run.run_dir, "killed-*.json")[0].read_bytes())
    assert note["reason"] == "run_timeout"
    assert len(ledger(run, "start")) == 1
    child = int(ledger(run, "child")[0].split()[1])
    until(lambda: not is_running(child))


def test_what_a_killed_worker_left_is_ended_by_the_next_one(lab: WorkerLab) -> None:
    run = lab.run(1, s0={"seconds": 600, "do": "child"})
    lab.dispatch(run, 1)
    first = lab.worker(AGENTCOMPASS_LEASE_S="60", AGENTCOMPASS_VISIBILITY_S="3")
    until(lambda: ledger(run, "child"))
    left = int(ledger(run, "child")[0].split()[1])

    pool = children(first.pid)
    kill_tree(first)
    until(lambda: not any(map(is_running, pool)))
    assert is_running(left)
    lab.worker(AGENTCOMPASS_LEASE_S="60", AGENTCOMPASS_VISIBILITY_S="3")

    until(lambda: not is_running(left))
    until(lambda: len(ledger(run, "start")) == 2)
    assert len(paths_in(lab.base, "worker-*")) == 1


@POOLS
def test_a_worker_without_the_run_gives_the_message_back_and_ends(
    lab: WorkerLab, pool: Pool
) -> None:
    run = lab.run(3)
    lab.dispatch(run, 3)
    elsewhere = lab.worker(pool, results=lab.directory / "elsewhere")

    assert elsewhere.wait(40) == 78
    assert lab.log().count("takes no more messages") == 1
    lab.worker(pool), lab.finalizer()
    until(lambda: ledger(run, "finalize"))
    assert ledger(run, "finalize") == ["finalize 3"]


def test_a_worker_that_was_told_to_stop_leaves_nothing_behind(lab: WorkerLab) -> None:
    worker = lab.worker()
    until(lambda: "ready" in lab.log())

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(40) == 0
    assert paths_in(lab.base, "worker-*") == []
