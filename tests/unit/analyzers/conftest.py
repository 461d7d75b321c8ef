"""Attempts with trajectories."""

from __future__ import annotations

from datetime import timedelta

from pydantic import JsonValue

from agentcompass.models.base import JsonObject
from agentcompass.models.result import AttemptResult
from agentcompass.models.trajectory import AssistantContent, Step, StepMetric, Trajectory
from tests.builders import T0, a_result


def a_step(
    content: JsonValue = "I think.",
    *calls: JsonObject,
    observation: JsonValue = "",
    tokens: tuple[int | None, int | None] = (None, None),
    model_ms: float | None = None,
    action_ms: float | None = None,
    stop_reason: str | None = None,
) -> Step:
    return Step(
        step_id=1,
        assistant_content=AssistantContent(content=content, tool_calls=calls),
        observation=observation,
        metric=StepMetric(
            prompt_tokens_len=tokens[0],
            completion_tokens_len=tokens[1],
            llm_infer_ms=model_ms,
            env_action_ms=action_ms,
            stop_reason=stop_reason,
        ),
    )


def a_call(name: str, arguments: JsonValue = "{}", call_id: str = "1") -> JsonObject:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def an_attempt(*steps: Step, answer: JsonValue = "4", seconds: float = 10) -> AttemptResult:
    trajectory = Trajectory(steps=steps, started_at=T0, finished_at=T0 + timedelta(seconds=seconds))
    return a_result().model_copy(update={"trajectory": trajectory, "final_answer": answer})
