"""Retries inside one attempt: what is repeated, what is kept, what is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentcompass.models.plan import RetryPolicy
from agentcompass.runtime.ports import Done, Stale
from agentcompass.store import attempts
from agentcompass.store.check import check_run
from tests.support.delivering import Lab, a_lab

TWICE = RetryPolicy(max_retries=2, patterns=("stub_failed", "judge_failed"))


def kept(lab: Lab) -> list[str]:
    retries = lab.attempt_dir() / "retries"
    return sorted(path.relative_to(retries).as_posix() for path in retries.rglob("*.json"))


def test_a_failed_agent_is_tried_again_and_its_tries_are_kept(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "error|fatal|ok"}, retry=TWICE)

    assert lab.deliver() == Done("published")

    assert (lab.result().status, lab.result().retry_count) == ("completed", 2)
    assert kept(lab) == [
        "retry-1/checkpoint.json",
        "retry-1/result.json",
        "retry-2/result.json",
    ]
    assert check_run(lab.run_dir) == []


def test_a_try_that_is_kept_says_what_went_wrong(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "fatal|ok"}, retry=TWICE)
    lab.deliver()

    kept = attempts.load_result(lab.attempt_dir() / "retries/retry-1/result.json")

    assert (kept.issues[0].code, kept.retry_count) == ("stub_failed", 0)


def test_the_last_failure_stands_when_the_budget_is_used_up(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "fatal"}, retry=TWICE)

    lab.deliver()

    assert (lab.ran("agent"), lab.result().retry_count) == (3, 2)
    assert lab.codes() == ["fatal run stub_failed"]


def test_only_the_evaluation_is_repeated_if_only_it_failed(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, evaluator={"t0": "error|grade"}, retry=TWICE)

    lab.deliver()

    assert (lab.ran("agent"), lab.ran("evaluator")) == (1, 2)
    assert (lab.result().metrics, lab.result().retry_count) == ({"correct": True}, 1)
    assert kept(lab) == ["retry-1/result.json"]


def test_the_whole_attempt_is_repeated_if_its_environment_is_gone(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, evaluator={"t0": "error|grade"}, retry=TWICE, mode="reuse")

    lab.deliver()

    assert (lab.ran("agent"), lab.ran("evaluator")) == (2, 2)


def test_a_permanent_failure_is_not_repeated(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "permanent"}, retry=TWICE)

    lab.deliver()

    assert (lab.ran("agent"), lab.result().retry_count) == (1, 0)


def test_the_waits_double_and_are_spread(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "fatal"}, retry=TWICE)

    lab.deliver()

    first, second = lab.slept
    assert 2.5 <= first <= 5 <= second <= 10


def test_retries_of_earlier_executions_count(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "fatal"}, retry=TWICE)
    lab.keeper.stop_at = "run_timeout"
    lab.deliver()
    (lab.attempt_dir() / "retries" / "retry-1").mkdir(parents=True)
    lab.keeper.stop_at = None

    assert lab.deliver() == Done("published")
    assert lab.result().retry_count == 2


def test_a_stop_ends_the_wait_for_a_retry(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, agent={"t0": "fatal"}, retry=TWICE)
    waits: list[float] = []

    def stop_while_waiting(seconds: float) -> None:
        waits.append(seconds)
        lab.keeper.executions[0].stop.request("cancelled")

    lab.site = replace(lab.site, sleep=stop_while_waiting)

    assert lab.deliver() == Stale("cancelled")
    assert (len(waits), lab.ran("agent")) == (1, 1)
