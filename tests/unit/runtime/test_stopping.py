"""Executions that are ended from outside: nothing is published, everything is kept or handed over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.runtime.ports import Done, HandBack, Park, Stale, StopReason
from agentcompass.store import attempts
from tests.support import store_runs
from tests.support.delivering import Lab, a_lab

Pool = Callable[[Callable[[], Any]], Any]


def stopped(lab: Lab, reason: StopReason, pool: Pool) -> object:
    lab.keeper.stop_at, lab.keeper.stop_reason = "run_timeout", reason
    return pool(lab.deliver)


@pytest.mark.parametrize(
    ("reason", "kind", "mark"),
    [
        ("cancelled", Stale, "cancelled"),
        ("lease_lost", Park, "lease_lost"),
        ("handed_back", HandBack, "handed_back"),
    ],
)
def test_a_stopped_execution_publishes_nothing_and_closes_its_mark(
    tmp_path: Path, pool: Pool, reason: StopReason, kind: type, mark: str
) -> None:
    lab = a_lab(tmp_path, agent={"*": "hang"})

    assert isinstance(stopped(lab, reason, pool), kind)

    assert attempts.result_of(lab.run_dir, "t0", 1) is None
    assert [path.name.split(".")[1] for path in lab.attempt_dir().glob("closed-*")] == [mark]
    assert lab.leases.held == {}


def test_the_environment_of_a_stopped_execution_is_closed(tmp_path: Path, pool: Pool) -> None:
    lab = a_lab(tmp_path, agent={"*": "hang"})

    stopped(lab, "cancelled", pool)

    assert lab.ran("environment close") == 1
    assert list((tmp_path / "work").iterdir()) == []


def test_a_handed_back_attempt_starts_again_in_the_ordinary_way(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    stopped(lab, "handed_back", lambda fn: fn())
    lab.keeper.stop_at = None

    assert lab.deliver() == Done("published")
    assert lab.keeper.executions[0].pid == lab.keeper.executions[1].pid


def test_an_attempt_that_is_cancelled_by_name_while_it_runs_is_over(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"*": "hang"})
    store_runs.decide(lab.run_dir, "cancel", ("t1", 1))
    lab.keeper.stop_at = "run_timeout"
    run = lab.keeper.until

    def cancel_then_stop(deadline: float, reason: Any) -> None:
        if reason == "run_timeout":
            store_runs.decide(lab.run_dir, "cancel", ("t0", 1))
        run(deadline, reason)

    lab.keeper.until = cancel_then_stop  # type: ignore[assignment, method-assign]

    assert lab.deliver() == Done("closed")


def test_what_a_cancelled_execution_had_snapshotted_goes_to_the_evidence(tmp_path: Path) -> None:
    lab = a_lab(tmp_path)
    lab.keeper.stop_at = "evaluation_timeout"

    assert lab.deliver() == Stale("cancelled")
    assert not (lab.attempt_dir() / "checkpoint.json").exists()
    assert list(lab.attempt_dir().glob("retries/execution-*/checkpoint.json"))
