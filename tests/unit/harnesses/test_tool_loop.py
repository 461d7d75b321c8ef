from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.errors import AttemptFailure, EnvironmentFailed, PermanentFailure
from agentcompass.harnesses.tool_loop.harness import SYSTEM_PROMPT, ToolLoop, ToolLoopParams
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.request import ModelPrices, ModelSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask, TaskInput
from agentcompass.models.trajectory import Step
from tests.support.process_environment import ProcessEnvironment
from tests.support.scripted_server import Answer, Call, Script, ScriptedServer, ToolCall

Context = Callable[..., AttemptContext]
TASK = PreparedTask(task_id="task-1", ground_truth="42", input=TaskInput(prompt="Do it."))
PRICES = ModelPrices(input_usd_per_mtok=1.0, output_usd_per_mtok=1.0)
SUBMIT = Answer("done", tool_calls=(ToolCall("submit", {"answer": "42"}),))


class Turns:
    """Answers by how often the model has been asked; the last answer for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.calls: list[Call] = []

    def answer(self, call: Call) -> Answer:
        self.calls.append(call)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    @property
    def told(self) -> list[str]:
        """What the model was told before each answer."""
        return [call.heard.last for call in self.calls]


def bash(command: str) -> Answer:
    return Answer("", tool_calls=(ToolCall("bash", {"command": command}),))


@pytest.fixture
def run(tmp_path: Path, a_context: Context) -> Callable[..., RunResult]:
    def start(
        script: Script,
        *,
        prices: ModelPrices = PRICES,
        seconds: float = 20.0,
        task: PreparedTask = TASK,
        breaks_after: int | None = None,
        **params: object,
    ) -> RunResult:
        place = tmp_path / "place"
        place.mkdir(exist_ok=True)
        policy = {"backoff_base_s": 0.001, "max_model_retries": 1, **params}
        harness = ToolLoop(ToolLoopParams.model_validate(policy, strict=False))
        with ScriptedServer(script) as server:
            model = ModelEndpoint(spec=ModelSpec(id="m", base_url=server.base_url, prices=prices))
            environment = ProcessEnvironment(place, breaks_after=breaks_after)
            return harness.run_task(task, environment, model, a_context(seconds=seconds))

    return start


Run = Callable[..., RunResult]


def steps_of(result: RunResult) -> tuple[Step, ...]:
    assert result.trajectory is not None
    return result.trajectory.steps


def codes(result: RunResult) -> list[str]:
    return [f"{each.severity} {each.phase} {each.code}" for each in result.issues]


def test_it_acts_until_it_submits(run: Run) -> None:
    script = Turns(bash("echo hello; echo oops >&2; exit 3"), SUBMIT)

    result = run(script)

    assert (result.final_answer, result.telemetry["ended"], codes(result)) == (
        "42",
        "submitted",
        [],
    )
    assert script.told[1] == "[exit code 3]\nhello\n[stderr]\noops"
    first, last = steps_of(result)
    assert (first.system_prompt, first.user_content) == (SYSTEM_PROMPT, "Do it.")
    assert first.observation == [
        {"tool_call_id": "call-1", "name": "bash", "content": script.told[1]}
    ]
    assert (len(first.tools), len(last.tools)) == (5, 0)
    assert result.telemetry["tool_calls"] == {"bash": 1, "submit": 1}


def test_an_answer_in_words_ends_it_too(run: Run) -> None:
    result = run(Turns(Answer("It is 42.")))

    assert (result.final_answer, result.telemetry["ended"]) == ("It is 42.", "answered")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ToolCall("bash", "{not json"), "wrong arguments of bash"),
        (ToolCall("bash", "[]"), "wrong arguments of bash"),
        (ToolCall("bash", {"cmd": "ls"}), "command: Field required"),
        (ToolCall("bash", {"command": 5}), "command: Input should be a valid string"),
        (ToolCall("browse", {"url": "x"}), "there is no tool 'browse'; there are bash, read_file"),
        (ToolCall("read_file", {"path": "x", "first_line": 0}), "first_line: "),
    ],
)
def test_a_malformed_call_is_answered_with_what_is_wrong(
    run: Run, call: ToolCall, told: str
) -> None:
    script = Turns(Answer("", tool_calls=(call,)), SUBMIT)

    result = run(script)

    assert result.telemetry["ended"] == "submitted"
    assert script.told[1].startswith("error: ")
    assert told in script.told[1]


def test_one_malformed_answer_after_the_other_ends_it(run: Run) -> None:
    result = run(Turns(Answer("", tool_calls=(ToolCall("bash", "{"),))), max_malformed=3)

    assert codes(result) == ["warning run malformed_calls"]
    assert len(steps_of(result)) == 3


def test_malformed_answers_count_only_in_a_row(run: Run) -> None:
    wrong = Answer("", tool_calls=(ToolCall("bash", "{"),))

    result = run(Turns(wrong, bash("true"), wrong, bash("true"), SUBMIT), max_malformed=2)

    assert result.telemetry["ended"] == "submitted"


def test_several_calls_of_one_answer_are_all_done_up_to_the_submission(run: Run) -> None:
    calls = [("bash", {"command": f"echo {n} >>log"}, f"c{n}") for n in range(3)]
    answer = Answer("", tool_calls=tuple(ToolCall(*call) for call in calls))
    after = ToolCall("bash", {"command": "echo late >>log"}, "c9")
    submit = Answer("", tool_calls=(ToolCall("submit", {}), after))
    script = Turns(answer, bash("cat log"), submit)

    run(script)

    assert script.told[2] == "[exit code 0]\n0\n1\n2"
    assert len(script.calls[1].heard.results) == 3


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"max_steps": 2}, "step_limit"),
        ({"max_tokens": 4}, "token_limit"),
        ({"max_cost_usd": 4e-6}, "cost_limit"),
    ],
)
def test_a_limit_ends_it_with_what_it_has(run: Run, params: dict[str, object], code: str) -> None:
    result = run(Turns(bash("echo kept >file")), **params)

    assert codes(result) == [f"warning run {code}"]
    assert (result.final_answer, result.telemetry["ended"], len(steps_of(result))) == (
        None,
        code,
        2,
    )


def test_a_cost_limit_without_prices_is_refused(run: Run) -> None:
    with pytest.raises(PermanentFailure, match=r"max_cost_usd needs model\.prices"):
        run(Turns(SUBMIT), prices=ModelPrices(), max_cost_usd=1.0)


def test_a_limit_that_nobody_can_count_is_no_limit_that_is_kept(run: Run) -> None:
    body = (
        b'{"choices": [{"message": {"tool_calls": [{"id": "1", "function":'
        b' {"name": "bash", "arguments": "{\\"command\\": \\"true\\"}"}}]}}]}'
    )

    with pytest.raises(PermanentFailure, match="does not say how many tokens"):
        run(Turns(Answer(body=body)), max_tokens=100)


def test_it_ends_by_itself_before_its_time_does(run: Run) -> None:
    result = run(Turns(bash("echo kept >file"), Answer(stall=True)), seconds=1.5)

    assert codes(result) == ["warning run time_limit"]
    assert result.telemetry["ended"] == "time_limit"


def test_a_command_gets_no_more_time_than_there_is(run: Run) -> None:
    script = Turns(bash("sleep 60"), SUBMIT)

    result = run(script, command_timeout_s=0.2)

    assert result.telemetry["ended"] == "submitted"
    assert "did not end within" in script.told[1]


def test_a_failing_model_leaves_what_was_done_until_then(run: Run) -> None:
    with pytest.raises(AttemptFailure, match="503") as caught:
        run(Turns(bash("true"), Answer("down", status=503)))

    partial = caught.value.partial
    assert isinstance(partial, RunResult)
    assert len(steps_of(partial)) == 2
    assert partial.telemetry["model_retries"] == 1


def test_a_failing_environment_leaves_what_was_done_until_then(run: Run) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        run(Turns(bash("true")), breaks_after=1)

    assert isinstance(caught.value.partial, RunResult)
    assert len(steps_of(caught.value.partial)) == 2
    assert caught.value.partial.telemetry["model_calls"] == 2


def test_an_empty_answer_is_asked_about_and_ends_it_only_if_it_goes_on(run: Run) -> None:
    script = Turns(Answer(""), bash("true"), Answer(""))

    with pytest.raises(AttemptFailure) as caught:
        run(script, max_malformed=2)

    assert caught.value.code == "model_empty_output"
    assert script.told[1].endswith("You said nothing and called no tool. Go on, or call submit.")
    assert len(script.calls) == 4


def test_an_answer_that_was_cut_off_is_no_final_answer(run: Run) -> None:
    script = Turns(Answer("I will now", finish_reason="length"), SUBMIT)

    assert run(script).final_answer == "42"
    assert script.told[1].startswith("Your last message was cut off")


def test_a_long_conversation_loses_its_oldest_results_first(run: Run) -> None:
    long = bash("yes xxxx | head -c 3000")
    script = Turns(long, long, long, SUBMIT)

    run(script, context_tokens=1_000)

    results = [m for m in script.calls[-1].body["messages"] if m["role"] == "tool"]  # type: ignore[attr-defined]
    assert "left out" in results[0]["content"]
    assert "xxxx" in results[-1]["content"]


def test_a_task_may_bring_its_own_system_prompt(run: Run) -> None:
    task = TASK.model_copy(update={"input": TaskInput(prompt="?", system_prompt="Be brief.")})

    assert steps_of(run(Turns(SUBMIT), task=task))[0].system_prompt == "Be brief."
    own = run(Turns(SUBMIT), task=task, system_prompt="Mine.")
    assert steps_of(own)[0].system_prompt == "Mine."


def test_sums_of_tokens_and_money_cover_all_steps(run: Run) -> None:
    result = run(Turns(bash("true"), SUBMIT))

    usage = result.telemetry["usage"]
    assert usage == {
        "input_tokens": 4,
        "output_tokens": 1,
        "cached_input_tokens": None,
        "reasoning_tokens": None,
    }
    assert result.telemetry["cost_usd"] == pytest.approx(5e-6)
    assert run(Turns(SUBMIT), prices=ModelPrices()).telemetry["cost_usd"] is None


def test_fewer_tools_can_be_offered(run: Run) -> None:
    script = Turns(bash("true"), SUBMIT)

    run(script, tools=["read_file"])

    assert script.calls[0].heard.tools == ("read_file", "submit")
    assert "there is no tool 'bash'" in script.told[1]
