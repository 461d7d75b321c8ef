"""The real package, on a scripted model and an environment of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.errors import AttemptFailure, EnvironmentFailed, PermanentFailure
from agentcompass.harnesses.mini_swe_agent import package
from agentcompass.harnesses.mini_swe_agent.harness import MiniSweAgentHarness, MiniSweAgentParams
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.request import ModelPrices, ModelSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask, TaskInput
from agentcompass.models.trajectory import Step
from tests.support.process_environment import ProcessEnvironment
from tests.support.scripted_server import Answer, Script, ScriptedServer, ToolCall
from tests.unit.harnesses.test_tool_loop import Turns, bash

Context = Callable[..., AttemptContext]
Run = Callable[..., RunResult]
TASK = PreparedTask(task_id="task-1", input=TaskInput(prompt="Do {{ it }}."))
DONE = bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo 42")


@pytest.fixture
def run(tmp_path: Path, a_context: Context) -> Run:
    def start(
        script: Script,
        *,
        seconds: float = 20.0,
        breaks_after: int | None = None,
        **params: object,
    ) -> RunResult:
        place = tmp_path / "place"
        place.mkdir(exist_ok=True)
        policy = {"backoff_base_s": 0.001, "max_model_retries": 0, **params}
        harness = MiniSweAgentHarness(MiniSweAgentParams.model_validate(policy))
        with ScriptedServer(script) as server:
            model = ModelEndpoint(spec=ModelSpec(id="m", base_url=server.base_url))
            environment = ProcessEnvironment(place, breaks_after=breaks_after)
            return harness.run_task(TASK, environment, model, a_context(seconds=seconds))

    return start


def steps_of(result: RunResult) -> tuple[Step, ...]:
    assert result.trajectory is not None
    return result.trajectory.steps


def test_it_acts_until_it_submits(run: Run) -> None:
    script = Turns(bash("echo hello; echo oops >&2; exit 3"), DONE)

    result = run(script)

    assert (result.final_answer, result.telemetry["ended"]) == ("42\n", "submitted")
    assert '"returncode": 3' in script.told[1]
    first, last = steps_of(result)
    assert "Do {{ it }}." in str(first.user_content)
    assert "hello\\noops" in str(first.observation)
    assert "42" in str(last.observation)
    assert result.issues == ()
    assert result.telemetry["mini_swe_agent"] == package._loaded[0].version


def test_a_malformed_answer_is_the_agents_own_affair(run: Run) -> None:
    wrong = Answer("", tool_calls=(ToolCall("bash", "{"),))
    script = Turns(wrong, Answer("I think …"), Answer(""), bash("true"), DONE)

    result = run(script, max_malformed=4)

    assert result.telemetry["ended"] == "submitted"
    assert [len(step.observation) for step in steps_of(result)] == [0, 0, 0, 1, 1]  # type: ignore[arg-type]
    assert all("Tool call error" in str(step.user_content) for step in steps_of(result)[1:4])


@pytest.mark.parametrize(
    ("script", "params", "code"),
    [
        (Turns(bash("true")), {"max_steps": 1}, "step_limit"),
        (Turns(Answer("hm")), {"max_malformed": 1}, "malformed_calls"),
        (Turns(Answer(stall=True)), {"seconds": 0.5}, "time_limit"),
    ],
)
def test_a_limit_ends_it_with_what_it_has(
    run: Run, script: Script, params: dict[str, float], code: str
) -> None:
    result = run(script, **params)

    assert [(each.severity, each.code) for each in result.issues] == [("warning", code)]
    assert result.telemetry["ended"] == code


def test_a_failing_model_leaves_what_was_done_until_then(run: Run) -> None:
    with pytest.raises(AttemptFailure, match="503") as caught:
        run(Turns(bash("true"), Answer("down", status=503)))

    assert isinstance(caught.value.partial, RunResult)
    assert len(steps_of(caught.value.partial)) == 2


def test_a_failing_environment_leaves_what_was_done_until_then(run: Run) -> None:
    with pytest.raises(EnvironmentFailed) as caught:  # its first command asks for the system
        run(Turns(bash("true")), breaks_after=1)

    assert isinstance(caught.value.partial, RunResult)
    assert len(steps_of(caught.value.partial)) == 1
    assert caught.value.partial.telemetry["model_calls"] == 1


def test_a_slow_command_is_ended_and_the_model_is_told(run: Run) -> None:
    script = Turns(bash("sleep 60"), DONE)

    run(script, command_timeout_s=0.2)

    assert "did not end within" in script.told[1]


def test_the_prompts_tell_nothing_of_the_worker(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "canary-canary")
    script = Turns(DONE)

    run(script, instance_template="{{ CANARY | default('nothing') }} {{ cwd }} {{ task }}")

    assert script.calls[0].heard.first.startswith("nothing /")


def test_a_cost_limit_without_prices_is_refused(run: Run) -> None:
    assert not ModelPrices().are_known
    with pytest.raises(PermanentFailure, match=r"needs model\.prices"):
        run(Turns(DONE), max_cost_usd=1.0)


def test_loading_it_touches_nothing_of_the_user_and_imports_no_second_client(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, os, pathlib; from agentcompass.harnesses.mini_swe_agent.package import load; "
        "before = dict(os.environ); load(pathlib.Path(sys.argv[1])); "
        "assert dict(os.environ) == before; print({'litellm', 'openai'} & sys.modules.keys())"
    )
    home = tmp_path / "home"
    home.mkdir()

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "settings")],
        env={**os.environ, "HOME": str(home), "MSWEA_GLOBAL_CONFIG_DIR": str(home / "own")},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "set()\n"
    assert list(home.iterdir()) == []


def test_where_it_is_not_installed_it_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "_loaded", [])
    monkeypatch.setitem(sys.modules, "minisweagent", None)

    with pytest.raises(PermanentFailure, match=r"agentcompass-distributed\[mini-swe-agent\]"):
        run(Turns(DONE))
