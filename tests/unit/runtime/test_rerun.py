"""Decision D3 on a plain resume: where an attempt starts that `--rerun` takes its result from."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.resuming.resume import Resumable, Wish, examine, go_on
from agentcompass.models.plan import Deadlines, RetryPolicy
from agentcompass.models.request import Request
from agentcompass.models.task import ArtifactRequest, TaskSpec
from agentcompass.runtime.ports import Done
from agentcompass.store import control
from agentcompass.store.check import check_run
from tests.builders import T0
from tests.support.delivering import Lab, a_lab
from tests.support.measured import covers, finalized

WITH_FILE = TaskSpec(task_id="t0", ground_truth="t0", artifacts=(ArtifactRequest(path="out"),))
BRIEF = Deadlines(setup_timeout_s=20, run_timeout_s=20, collect_timeout_s=20, evaluate_timeout_s=2)


def no_plan(request: Request) -> Planned:
    raise AssertionError("planned a sealed run")


def examined(lab: Lab, *what: str) -> Resumable:
    return examine(lab.run_dir, Wish(rerun=what), plan=no_plan, now=lambda: T0)


def resumed(lab: Lab, *what: str) -> int:
    """Resume, deliver what is left, and return the leg."""
    got = go_on(examined(lab, *what), reason="", by="me", at=T0)
    for task in got.seen.work:
        for number in task.numbers:
            assert lab.deliver(task.task_id, number, leg=got.leg) == Done("published")
    return got.leg


def ran(lab: Lab) -> tuple[int, int]:
    return lab.ran("agent"), lab.ran("evaluator")


def test_a26_a_grader_that_hung_is_asked_again_and_the_agent_is_not(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, evaluator={"t0": "hang|grade"}, deadlines=BRIEF, task_specs=[WITH_FILE])
    assert lab.executed().issues[0].code == "evaluation_timeout"
    report = finalized(lab.run_dir).report
    assert (report.headline.value, covers(report.headline.counts)) == (None, (1, 0, 1, 0, 1))

    leg = resumed(lab, "errored")

    assert ran(lab) == (1, 2)
    assert (lab.result().leg, lab.result().metrics["correct"]) == (leg, True)
    report = finalized(lab.run_dir).report
    assert (report.headline.value, covers(report.headline.counts)) == (1.0, (1, 1, 0, 0, 0))
    assert [path.parent.name for path in lab.attempt_dir().rglob("result-*.json")] == ["leg-1"]
    assert check_run(lab.run_dir) == []


@pytest.mark.parametrize(
    ("what", "started"), [("errored", (1, 2)), ("unscored", (1, 2)), ("t0", (2, 2))]
)
def test_a_broken_evaluator_costs_an_agent_only_if_its_task_is_named(
    tmp_path: Path, what: str, started: tuple[int, int]
) -> None:
    lab = a_lab(tmp_path, evaluator={"t0": "raise|grade"}, task_specs=[WITH_FILE])
    lab.executed()

    resumed(lab, what)

    assert ran(lab) == started
    assert lab.result().metrics["correct"] is True
    assert check_run(lab.run_dir) == []


@pytest.mark.parametrize("also", ["errored", "unscored"])
def test_a_verdict_is_earned_again_by_another_agent_in_every_attempt(
    tmp_path: Path, also: str
) -> None:
    """Trying again only what failed, beside what succeeded, would be the best of several draws."""
    lab = a_lab(tmp_path, agent={"t0": "wrong|ok"}, task_specs=[WITH_FILE], k=2)
    lab.deliver("t0", 1)
    lab.deliver("t0", 2)
    (rerun,) = examined(lab, "failed", also).reruns

    assert (list(rerun.evaluated), list(rerun.executed)) == ([], [1, 2])
    assert rerun.described.endswith("attempt 1, 2 run again (failed)")


def test_attempts_of_one_task_start_where_each_of_them_can(tmp_path: Path) -> None:
    agent = {"t0:2": "raise|ok"}
    lab = a_lab(tmp_path, agent=agent, task_specs=[WITH_FILE], k=2)
    lab.deliver("t0", 1)
    lab.deliver("t0", 2)
    (rerun,) = examined(lab, "errored").reruns

    assert (list(rerun.evaluated), list(rerun.executed)) == ([1], [2])
    assert "attempt 1 evaluated again; 2 run again (the agent did not run cleanly)" in (
        rerun.described
    )

    resumed(lab, "errored")
    assert (lab.ran("agent", "t0", 1), lab.ran("agent", "t0", 2)) == (1, 2)


def test_artifacts_that_are_not_what_was_collected_cost_the_agent(tmp_path: Path) -> None:
    lab = a_lab(
        tmp_path,
        agent={"t0": "run:echo made > out && printf t0"},
        evaluator={"t0": "raise|raise|grade"},
        task_specs=[WITH_FILE],
        host=True,
    )
    lab.executed()
    resumed(lab, "errored")
    assert ran(lab) == (1, 2)
    (collected,) = lab.attempt_dir().glob("artifacts/*/1-out")
    collected.write_bytes(b"another")

    (rerun,) = examined(lab, "errored").reruns
    assert list(rerun.executed) == [1]
    resumed(lab, "errored")

    assert ran(lab) == (2, 3)
    assert control.control_records(lab.run_dir)[-1].evaluations == ()


def test_every_worker_goes_by_the_record_and_none_by_what_it_sees(tmp_path: Path) -> None:
    """The snapshot is as good as it was, but the record does not name it."""
    lab = a_lab(tmp_path, task_specs=[WITH_FILE])
    lab.executed()

    resumed(lab, "t0")
    resumed(lab, "t0")

    assert ran(lab) == (3, 3)
    assert check_run(lab.run_dir) == []


def test_the_tries_of_an_earlier_leg_are_kept_beside_its_result(tmp_path: Path) -> None:
    retry = RetryPolicy(max_retries=1, patterns=("evaluate_failed",), base_delay_s=0.001)
    lab = a_lab(
        tmp_path, evaluator={"t0": "raise|raise|raise|grade"}, retry=retry, task_specs=[WITH_FILE]
    )
    assert lab.executed().retry_count == 1
    resumed(lab, "errored")

    kept = sorted(
        path.relative_to(lab.attempt_dir() / "retries").parent.as_posix()
        for path in lab.attempt_dir().rglob("result*.json")
        if "retries" in path.parts
    )

    assert kept == ["leg-1", "leg-1/retry-1", "retry-1"]
    assert (ran(lab), lab.result().retry_count) == ((1, 4), 1)
    assert check_run(lab.run_dir) == []
