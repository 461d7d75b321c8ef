from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.errors import AttemptFailure
from agentcompass.harnesses.openai_chat import OpenAIChat, OpenAIChatParams
from agentcompass.harnesses.prompts import messages_of
from agentcompass.models.base import JsonObject
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.request import ModelPrices, ModelSpec
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask, TaskInput
from tests.support.process_environment import ProcessEnvironment
from tests.support.scripted_server import (
    Answer,
    InOrder,
    PerAttempt,
    Script,
    ScriptedServer,
    rate_limited,
)

TASK = PreparedTask(
    task_id="task-1", ground_truth="42", input=TaskInput(prompt="6 x 7?", system_prompt="Be brief.")
)
Context = Callable[..., AttemptContext]


def run(
    script: Script, context: AttemptContext, params: OpenAIChatParams | None = None
) -> RunResult:
    harness = OpenAIChat(params or OpenAIChatParams())
    prices = ModelPrices(input_usd_per_mtok=1.0, output_usd_per_mtok=1.0)
    with ScriptedServer(script) as server:
        model = ModelEndpoint(spec=ModelSpec(id="m", base_url=server.base_url, prices=prices))
        return harness.run_task(TASK, ProcessEnvironment(Path()), model, context)


def test_the_answer_its_reasoning_and_its_cost_are_recorded(a_context: Context) -> None:
    result = run(InOrder(Answer("It is 42.", reasoning="six by seven")), a_context())

    assert result.final_answer == "It is 42."
    assert result.trajectory is not None
    step = result.trajectory.steps[0]
    assert (step.system_prompt, step.user_content) == ("Be brief.", "6 x 7?")
    assert step.assistant_content.reasoning_content == "six by seven"
    assert (step.metric.prompt_tokens_len, step.metric.completion_tokens_len) == (3, 3)
    assert step.metric.stop_reason == "stop"
    assert result.telemetry["cost_usd"] == pytest.approx(6e-6)


def test_two_rate_limits_are_waited_for_and_counted(a_context: Context) -> None:
    slow_down = rate_limited("0.05")
    policy = OpenAIChatParams(backoff_base_s=0.01)

    result = run(InOrder(slow_down, slow_down, Answer("42")), a_context(), policy)

    assert result.final_answer == "42"
    assert result.telemetry["model_retries"] == 2
    assert result.telemetry["backoff_s"] >= 0.1  # type: ignore[operator]


def test_a_failed_call_leaves_what_it_tried_as_evidence(a_context: Context) -> None:
    policy = OpenAIChatParams(backoff_base_s=0.01, max_model_retries=1)

    with pytest.raises(AttemptFailure, match="503") as caught:
        run(InOrder(Answer("down", status=503)), a_context(), policy)

    partial = caught.value.partial
    assert isinstance(partial, RunResult)
    assert partial.final_answer is None
    assert partial.telemetry["model_retries"] == 1


def test_an_empty_answer_is_kept_beside_its_error(a_context: Context) -> None:
    with pytest.raises(AttemptFailure) as caught:
        run(InOrder(Answer("", reasoning="…", finish_reason="length")), a_context())

    assert caught.value.code == "model_empty_output"
    assert isinstance(caught.value.partial, RunResult)
    assert caught.value.partial.final_answer == ""


def test_a_script_can_tell_attempts_apart(a_context: Context) -> None:
    script = PerAttempt(lambda task_id, attempt, _: Answer(f"{task_id} {attempt}"))

    result = run(script, a_context(attempt=2, task_id="t-é"), OpenAIChatParams(identify=True))

    assert result.final_answer == "t-\\xe9 2"


def test_a_model_is_asked_in_its_own_protocol(a_context: Context) -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        spec = ModelSpec(id="m", base_url=server.base_url, api_protocol="anthropic")
        result = OpenAIChat(OpenAIChatParams()).run_task(
            TASK, ProcessEnvironment(Path()), ModelEndpoint(spec=spec), a_context()
        )

        assert server.traffic.calls[0].body["system"] == "Be brief."
    assert result.final_answer == "42"


def test_messages_of_a_task_are_sent_as_they_are() -> None:
    messages: tuple[JsonObject, ...] = (
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    )
    task = TASK.model_copy(update={"input": TaskInput(messages=messages)})

    assert messages_of(task, None) == messages


def test_a_system_prompt_of_the_harness_replaces_the_tasks() -> None:
    messages: tuple[JsonObject, ...] = (
        {"role": "system", "content": "old"},
        {"role": "user", "content": "a"},
    )
    task = TASK.model_copy(update={"input": TaskInput(messages=messages)})

    assert messages_of(task, "new") == ({"role": "system", "content": "new"}, messages[1])


def test_media_follow_the_prompt() -> None:
    image: JsonObject = {"type": "image_url", "image_url": {"url": "data:,"}}
    task = TASK.model_copy(update={"input": TaskInput(prompt="what?", media=(image,))})

    assert messages_of(task, None)[0]["content"] == [{"type": "text", "text": "what?"}, image]
