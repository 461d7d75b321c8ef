"""Redis goes away and comes back: no worker ends, no attempt runs twice, every chord completes."""

from __future__ import annotations

import shutil
import time
from typing import Any

import pytest

from tests.support.worker_lab import HELD, WorkerLab, ledger, let_go, until
from workers.serving.options import Pool

pytestmark = pytest.mark.integration
POOLS: tuple[Pool, ...] = ("prefork", "threads")


def test_workers_of_both_pools_outlive_eight_seconds_without_redis(lab: WorkerLab) -> None:
    # Attempts end before, during and after the outage, and slots are free all the time.
    steps: dict[str, Any] = {f"s{offset}": {"seconds": offset} for offset in range(12)}
    run = lab.run(12, **steps)
    lab.dispatch(run, 12)
    workers = [lab.worker(pool, 8, AGENTCOMPASS_LEASE_S="30") for pool in POOLS]
    workers.append(lab.finalizer())
    until(lambda: len(ledger(run, "start")) == 12 and ledger(run, "end 1"))
    time.sleep(1.2)  # appendfsync everysec: what is younger is gone with the server

    lab.broker.kill()
    time.sleep(8)
    lab.broker.start()

    until(lambda: ledger(run, "finalize"), 60)
    assert ledger(run, "finalize")[-1] == "finalize 12"
    assert len(ledger(run, "start")) == 12
    assert [worker.poll() for worker in workers] == [None, None, None]


@pytest.mark.parametrize("pool", POOLS)
def test_workers_go_on_with_a_redis_that_lost_everything(lab: WorkerLab, pool: Pool) -> None:
    run = lab.run(2, s0=HELD)
    lab.dispatch(run, 2)
    lab.worker(pool), lab.finalizer()
    until(lambda: ledger(run, "start 0") and ledger(run, "end 1"))

    lab.broker.kill()
    shutil.rmtree(lab.broker.directory)
    lab.broker.start()
    # Whoever sends anew gives those who execute the time to say so.
    until(lambda: lab.queue.holdings(run).leased == {(0, 1)})
    lab.dispatch(run, 2, leg=2)
    let_go(run)

    until(lambda: "finalize 2" in ledger(run, "finalize"), 60)
    assert len(ledger(run, "start")) == 2
