"""The chord on real parts: it completes once, whatever happens to its headers."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.worker_lab import (
    HELD,
    WorkerLab,
    kill_tree,
    ledger,
    let_go,
    pending,
    stay_out,
    until,
)
from workers.app import make_app
from workers.dispatch import headers
from workers.serving.options import Pool

pytestmark = pytest.mark.integration


def started_s(line: str) -> float:
    """Return when an execution began, as its line says."""
    return float(line.split()[4])


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_two_hundred_headers_fire_one_callback(lab: WorkerLab, pool: Pool) -> None:
    run = lab.run(200)
    lab.dispatch(run, 200)

    lab.worker(pool, 4), lab.finalizer()

    until(lambda: ledger(run, "finalize"))
    assert ledger(run, "finalize") == ["finalize 200"]
    assert len(ledger(run, "start")) == 200


def test_a_chord_of_none_and_a_chord_of_one_finalize_at_once(lab: WorkerLab) -> None:
    none, one = lab.run(0, "none"), lab.run(1, "one")
    lab.dispatch(none, 0)
    lab.dispatch(one, 1)

    lab.worker(), lab.finalizer()

    until(lambda: ledger(none, "finalize") and ledger(one, "finalize"))
    assert ledger(none, "finalize") == ["finalize 0"]
    assert ledger(one, "finalize") == ["finalize 1"]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_duplicates_that_return_while_their_first_runs_do_not_fire_the_callback(
    lab: WorkerLab, pool: Pool
) -> None:
    run = lab.run(3, s0=HELD)
    lab.dispatch(run, 3)
    for _ in range(2):
        lab.queue.resend(run, 1, pending(3))

    lab.worker(pool, 3), lab.finalizer()
    until(lambda: ledger(run, "held 0"))
    let_go(run)

    until(lambda: ledger(run, "finalize"))
    assert ledger(run, "finalize") == ["finalize 3"]
    assert len(ledger(run, "start")) == 3


def test_a_finished_holder_wakes_its_parked_duplicate(lab: WorkerLab) -> None:
    run = lab.run(1, s0=HELD)
    lab.queue.resend(run, 1, pending(1))
    lab.dispatch(run, 1)

    lab.worker(slots=2, AGENTCOMPASS_LEASE_S="60")

    until(lambda: ledger(run, "held 0"))
    let_go(run)
    until(lambda: ledger(run, "end 0"))
    until(lambda: not lab.queue.holdings(run).all, 30)  # its lease would last for a minute


@pytest.mark.parametrize("pool", ["prefork"])
def test_a_killed_child_is_executed_again_at_once(lab: WorkerLab, pool: Pool) -> None:
    run = lab.run(3, s1={"do": "kill"})
    lab.dispatch(run, 3)

    lab.worker(pool, 2, AGENTCOMPASS_LEASE_S="60"), lab.finalizer()

    until(lambda: ledger(run, "finalize"), 40)  # the dead one's lease would last for longer
    assert ledger(run, "finalize") == ["finalize 3"]
    assert len(ledger(run, "start 1 ")) == 2


def test_an_attempt_of_a_killed_worker_starts_elsewhere(lab: WorkerLab) -> None:
    run = lab.run(2, s0={"seconds": 600}, s1={"seconds": 600})
    lab.dispatch(run, 2)
    first = lab.worker(AGENTCOMPASS_LEASE_S="3", AGENTCOMPASS_VISIBILITY_S="3")
    until(lambda: len(ledger(run, "start")) == 2)

    kill_tree(first)
    (run.run_dir / "script.json").write_text('{"count": 2}')
    lab.worker(AGENTCOMPASS_VISIBILITY_S="3"), lab.finalizer()

    until(lambda: ledger(run, "finalize"))
    assert ledger(run, "finalize") == ["finalize 2"]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_what_escapes_from_an_attempt_ends_neither_worker_nor_chord(
    lab: WorkerLab, pool: Pool
) -> None:
    run = lab.run(3, s0={"do": "memory"}, s1={"do": "exit"})
    lab.dispatch(run, 3)

    worker = lab.worker(pool)
    lab.finalizer()

    until(lambda: ledger(run, "finalize"))
    assert ledger(run, "finalize") == ["finalize 3"]
    assert worker.poll() is None


def test_a_callback_that_comes_early_waits_for_the_rest(lab: WorkerLab) -> None:
    run = lab.run(1)
    lab.queue.finalize(run, 1)
    lab.dispatch(run, 1)

    lab.finalizer()
    until(lambda: ledger(run, "finalize 0"))
    lab.worker()

    until(lambda: ledger(run, "finalize 1"))


def test_attempts_longer_than_the_visibility_timeout_run_once_in_either_pool(
    lab: WorkerLab,
) -> None:
    run = lab.run(2, s0=HELD, s1=HELD)
    lab.dispatch(run, 2)

    lab.worker("prefork", 1, AGENTCOMPASS_VISIBILITY_S="8")
    lab.worker("threads", 1, AGENTCOMPASS_VISIBILITY_S="8")
    until(lambda: len(ledger(run, "start")) == 2)
    lab.worker("threads", 2, AGENTCOMPASS_VISIBILITY_S="8")  # idle: would take what becomes visible
    lab.finalizer()
    until(lambda: len(lab.queue.workers("default")) == 3)
    stay_out(lab.broker.client, 9)
    let_go(run)

    until(lambda: ledger(run, "finalize"))
    assert ledger(run, "finalize") == ["finalize 2"]
    assert len({line.split()[3] for line in ledger(run, "start")}) == 2
    assert ledger(run, "held") == []


def test_a_busy_worker_hoards_nothing(lab: WorkerLab) -> None:
    run = lab.run(6, s0={"seconds": 600})
    lab.dispatch(run, 6)

    lab.worker(slots=1), lab.worker(slots=1)

    until(lambda: len(ledger(run, "end")) == 5)


def test_nobody_revokes_an_attempt_around_its_run(lab: WorkerLab) -> None:
    run = lab.run(4, s0={"seconds": 2}, s1={"seconds": 2})
    lab.dispatch(run, 4)
    lab.worker(), lab.finalizer()
    until(lambda: len(ledger(run, "start")) >= 2)

    app = make_app(lab.broker.url)
    for one in headers(run, 1, pending(4), "x"):
        app.control.revoke(one.message_id, terminate=True)

    until(lambda: ledger(run, "finalize"))
    assert ledger(run, "finalize") == ["finalize 4"]
    assert len(ledger(run, "start")) == 4


def test_runs_share_their_workers_evenly(lab: WorkerLab) -> None:
    slow = {f"s{offset}": {"seconds": 0.05} for offset in range(40)}
    large, small = lab.run(40, "large", **slow), lab.run(8, "small", **slow)
    lab.dispatch(large, 40)
    lab.dispatch(small, 8)

    lab.worker(slots=1)

    until(lambda: len(ledger(small, "end")) == 8)
    last_s = max(started_s(line) for line in ledger(small, "start"))
    assert sum(started_s(line) < last_s for line in ledger(large, "start")) < 14


def test_a_lost_lease_memory_is_claimed_again(lab: WorkerLab) -> None:
    run = lab.run(1, s0=HELD)
    lab.dispatch(run, 1)
    lab.worker()
    until(lambda: ledger(run, "start"))

    lab.broker.client.flushall()

    until(lambda: lab.queue.holdings(run).leased)
    lab.queue.resend(run, 1, pending(1))
    until(lambda: ledger(run, "held 0"))
    let_go(run)
    until(lambda: ledger(run, "end"))
    assert len(ledger(run, "start")) == 1


def test_a_stopped_child_is_not_mistaken_for_a_dead_one(lab: WorkerLab) -> None:
    run = lab.run(1, s0=HELD)
    lab.dispatch(run, 1)
    lab.worker(AGENTCOMPASS_LEASE_S="6", AGENTCOMPASS_VISIBILITY_S="6"), lab.finalizer()
    until(lambda: ledger(run, "start"))
    pid = int(ledger(run, "start")[0].split()[2])

    os.kill(pid, signal.SIGSTOP)
    stay_out(lab.broker.client, 7)  # longer than lease and visibility
    os.kill(pid, signal.SIGCONT)
    let_go(run)

    until(lambda: ledger(run, "finalize"))
    assert len(ledger(run, "start")) == 1
