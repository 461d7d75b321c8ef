"""Attempts that take their process with them: kill notes, open marks, executions alone."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from agentcompass.models.plan import Deadlines
from agentcompass.runtime.delivery.held import LEASE_LOST_S
from agentcompass.runtime.ports import Done, Execution, HandBack, Park, Watch
from agentcompass.store import attempts
from agentcompass.store.check import check_run
from tests.support import store_runs
from tests.support.delivering import Lab, a_lab

ENVIRON = dict(os.environ)


def leave_an_open_mark(lab: Lab, token: str = "gone", *, leg: int = 1) -> None:
    store_runs.begin(lab.run_dir, "t0", token=token, leg=leg)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("run_timeout", "error run run_timeout"),
        ("setup_timeout", "fatal setup setup_failed"),
        ("collect_timeout", "fatal collect artifact_transfer_failed"),
        ("evaluation_timeout", "error evaluate evaluation_timeout"),
    ],
)
def test_a_kill_note_is_published_without_executing(tmp_path: Path, reason: str, code: str) -> None:
    lab = a_lab(tmp_path)
    leave_an_open_mark(lab)
    attempts.leave_kill_note(lab.attempt_dir(), "gone", reason, "hard deadline")

    assert lab.deliver() == Done("published")
    assert (lab.codes(), lab.ran("agent")) == ([code], 0)
    assert check_run(lab.run_dir) == []


def test_what_the_agent_had_finished_survives_a_killed_evaluation(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "nonce"})
    lab.keeper.stop_at, lab.keeper.stop_reason = "evaluation_timeout", "handed_back"
    assert isinstance(lab.deliver(), HandBack)
    token = lab.keeper.executions[0].token
    attempts.leave_kill_note(lab.attempt_dir(), token, "evaluation_timeout", "")

    lab.deliver()

    assert lab.codes() == ["error evaluate evaluation_timeout"]
    assert len(str(lab.result().final_answer)) == 32
    assert (lab.ran("agent"), lab.ran("evaluator"), check_run(lab.run_dir)) == (1, 0, [])
    checkpoint = attempts.load_checkpoint(lab.attempt_dir())
    assert checkpoint is not None
    assert checkpoint.scheduler.token == lab.result().token


def test_an_attempt_with_an_open_mark_is_executed_in_a_process_of_its_own(
    tmp_path: Path,
) -> None:
    lab = a_lab(tmp_path, environ=ENVIRON)
    leave_an_open_mark(lab)

    assert lab.deliver() == Done("published")

    assert lab.result().metrics == {"correct": True}
    assert lab.keeper.executions[0].pid != os.getpid()
    reasons = [reason for _, reason in lab.keeper.deadlines]
    assert reasons[:2] == ["setup_timeout", "run_timeout"]
    assert check_run(lab.run_dir) == []


@pytest.mark.slow
@pytest.mark.parametrize("script", ["die", "kill", "segfault"])
def test_an_attempt_that_kills_its_process_thrice_is_lost_and_kills_nobody_else(
    tmp_path: Path, script: str
) -> None:
    lab = a_lab(tmp_path, agent={"t0": script}, environ=ENVIRON)
    leave_an_open_mark(lab)

    ends = [lab.deliver() for _ in range(3)]

    assert ends == [Park(1.0, "died_alone")] * 3
    assert lab.deliver() == Done("published")
    assert (lab.codes(), lab.ran("agent")) == (["fatal run worker_lost"], 3)
    assert check_run(lab.run_dir) == []


def test_what_was_published_while_its_process_started_is_not_executed_again(
    tmp_path: Path,
) -> None:
    lab = a_lab(tmp_path, environ=ENVIRON)
    leave_an_open_mark(lab)
    watch = lab.keeper.watch

    def publish_and_watch(execution: Execution) -> AbstractContextManager[Watch]:
        store_runs.execute(lab.run_dir, "t0")
        return watch(execution)

    lab.keeper.watch = publish_and_watch  # type: ignore[method-assign, assignment]

    assert lab.deliver() == Park(LEASE_LOST_S, "lease_lost")
    assert (lab.ran("agent"), check_run(lab.run_dir)) == (0, [])


def test_an_execution_alone_can_be_stopped(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "hang"}, environ=ENVIRON)
    leave_an_open_mark(lab)
    lab.keeper.stop_at, lab.keeper.stop_reason = "run_timeout", "handed_back"

    assert isinstance(lab.deliver(), HandBack)


def test_an_execution_alone_keeps_its_deadline(tmp_path: Path) -> None:
    quick = Deadlines(
        setup_timeout_s=20, run_timeout_s=0.5, collect_timeout_s=20, evaluate_timeout_s=20
    )
    lab = a_lab(
        tmp_path,
        agent={"t0": "hang"},
        environ=ENVIRON,
        deadlines=quick,
    )
    leave_an_open_mark(lab)

    lab.deliver()

    assert lab.codes() == ["error run run_timeout"]


def test_a_plug_in_that_two_workers_lack_is_recorded_by_the_third(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, plan_update={"harness": {"id": "nowhere.at.all:Harness"}})

    first, second = lab.deliver(), lab.deliver()

    assert isinstance(first, HandBack)
    assert isinstance(second, HandBack)
    assert (first.reason, first.stops_consuming) == ("cannot_load", False)
    assert lab.deliver() == Done("published")
    assert lab.codes() == ["fatal setup setup_failed"]
