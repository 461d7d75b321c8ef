"""Agent, collection and verdict in every environment and every mode, on the real way of an attempt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import NoParams
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.plan import Deadlines, EvaluationMode
from agentcompass.models.request import ComponentSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import ArtifactRequest, PreparedTask, TaskSpec
from agentcompass.runtime.calling.interrupts import Limit
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.store.check import check_run
from tests.support.delivering import Lab, a_lab
from tests.support.docker_engine import IMAGE, docker
from tests.support.sandboxes import needs_bubblewrap
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration

KINDS = [
    pytest.param("host_process"),
    pytest.param("bubblewrap", marks=needs_bubblewrap),
    pytest.param("docker"),
]
WORK = "mkdir out; echo 42 > out/answer; ln -s answer out/link; ln -s /etc/passwd out/away"
TICKER = "setsid sh -c 'while :; do echo x >> out/ticks; sleep 0.05; done' > /dev/null 2>&1 &"
TICKED = "until test -s out/ticks; do sleep 0.05; done"
CHECK = (
    "run:test $(cat out/answer) = 42 && a=$(wc -c < out/ticks) && sleep 1"
    " && test $(wc -c < out/ticks) = $a && test ! -e secret"
)


LIMITS: list[Limit] = []
"""Of the phases that began, the present one last."""


def keeping_limits(phase: Callable[..., Limit]) -> Callable[..., Limit]:
    def begun(*arguments: Any) -> Limit:
        LIMITS.append(phase(*arguments))
        return LIMITS[-1]

    return begun


class LateHarness(Harness[NoParams]):
    """Has all the time that its work takes, and then never ends."""

    id: ClassVar[str] = "late"

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        with LIMITS[-1].standing_still():
            environment.exec(f"{WORK}; {TICKER} {TICKED}")
        environment.exec("sleep 100")
        raise AssertionError


@pytest.fixture(params=KINDS)
def environment(request: pytest.FixtureRequest) -> ComponentSpec:
    kind = str(request.param)
    if kind != "docker":
        return ComponentSpec(id=kind)
    request.getfixturevalue("engine")
    return ComponentSpec(id=kind, params={"image": IMAGE, "pull": "never"})


def within(run_s: float) -> Deadlines:
    return Deadlines(
        setup_timeout_s=30, run_timeout_s=run_s, collect_timeout_s=30, evaluate_timeout_s=30
    )


def a_run(
    tmp_path: Path,
    environment: ComponentSpec,
    mode: EvaluationMode,
    agent: str,
    *,
    deadlines: Deadlines | None = None,
    check: str = CHECK,
    harness: str = "",
) -> Lab:
    own = {"harness": ComponentSpec(id=f"{__name__}:{harness}")} if harness else {}
    return a_lab(
        tmp_path,
        agent={"*": f"run:{agent}"},
        evaluator={"*": check},
        mode=mode,
        task_specs=[
            TaskSpec(task_id="t0", ground_truth="", artifacts=(ArtifactRequest(path="out"),))
        ],
        deadlines=deadlines or within(run_s=30),
        plan_update={"environment": environment, **own},
    )


def nothing_is_left(lab: Lab) -> bool:
    work = lab.site.work_dir
    return not paths_in(work, "*")


@pytest.mark.parametrize("mode", ["reuse", "fresh"])
def test_the_verdict_sees_what_the_agent_left_and_nothing_moves(
    tmp_path: Path, environment: ComponentSpec, mode: EvaluationMode
) -> None:
    lab = a_run(tmp_path, environment, mode, f"{WORK}; {TICKER} {TICKED}")

    found = lab.executed()

    assert lab.codes() == []
    assert found.metrics["correct"] is True
    assert check_run(lab.run_dir) == []
    assert nothing_is_left(lab)


def test_without_an_environment_the_answer_is_judged(
    tmp_path: Path, environment: ComponentSpec
) -> None:
    lab = a_run(tmp_path, environment, "none", f"{WORK}; {TICKER} true", check="grade")

    found = lab.executed()

    assert (lab.codes(), found.metrics["correct"]) == ([], True)
    assert nothing_is_left(lab)


@pytest.mark.parametrize("mode", ["reuse", "fresh"])
def test_what_a_late_agent_left_is_judged_when_it_is_dead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: ComponentSpec,
    mode: EvaluationMode,
) -> None:
    monkeypatch.setattr(Attempt, "phase", keeping_limits(Attempt.phase))
    lab = a_run(tmp_path, environment, mode, "", harness="LateHarness", deadlines=within(run_s=1))

    found = lab.executed()

    assert lab.codes() == ["error run run_timeout"]
    assert found.metrics["correct"] is True
    assert nothing_is_left(lab)


@pytest.mark.parametrize("mode", ["none", "fresh"])
def test_what_leads_out_is_not_collected(
    tmp_path: Path, environment: ComponentSpec, mode: EvaluationMode
) -> None:
    lab = a_run(tmp_path, environment, mode, f"{WORK}; mkfifo out/pipe; touch out/ticks")

    lab.deliver()

    files = {path.name for path in paths_in(lab.attempt_dir(), "artifacts/*/*/*")}
    assert files == {"answer", "link", "ticks"}


def test_files_that_nobody_may_read_cost_nothing(
    tmp_path: Path, environment: ComponentSpec
) -> None:
    agent = f"{WORK}; touch out/ticks; mkdir out/d; touch out/d/x; chmod 000 out/d/x out/d out"
    lab = a_run(tmp_path, environment, "fresh", agent)

    found = lab.executed()

    assert (lab.codes(), found.metrics["correct"]) == ([], True)
    assert nothing_is_left(lab)


def test_what_cannot_be_started_is_its_own_attempts_affair(tmp_path: Path, engine: str) -> None:
    for number, params in enumerate([{}, {"image": "no/such:image", "pull": "never"}]):
        (tmp_path / str(number)).mkdir()
        lab = a_run(
            tmp_path / str(number), ComponentSpec(id="docker", params=dict(params)), "none", "true"
        )
        lab.deliver()
        assert lab.codes() == ["fatal setup setup_failed"]
        assert ("no/such:image" if number else "neither the task") in str(lab.result().error)

    assert docker(engine, "ps", "--all", "--quiet") == ""
