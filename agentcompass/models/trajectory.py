"""ACTF_v1.0: what the agent did, step by step (contracts, result.json)."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from agentcompass.models.base import JsonObject, Record, Timestamp


class _Noted(Record):
    """A part of a trajectory. Tools report NaN: it is accepted here and written as null."""

    model_config = ConfigDict(allow_inf_nan=True)


class AssistantContent(_Noted):
    """What the model said in one step."""

    content: JsonValue = ""
    reasoning_content: JsonValue = None
    tool_calls: tuple[JsonObject, ...] = ()


class StepMetric(_Noted):
    """Token counts and latencies of one step; null means not measured, never zero."""

    prompt_tokens_len: int | None = None
    completion_tokens_len: int | None = None
    llm_infer_ms: float | None = None
    env_action_ms: float | None = None
    stop_reason: str | None = None


class Step(_Noted):
    """One turn of the agent; `step_id` starts at 1."""

    step_id: int
    system_prompt: JsonValue = ""
    user_content: JsonValue = ""
    tools: tuple[JsonObject, ...] = ()
    assistant_content: AssistantContent = AssistantContent()
    observation: JsonValue = Field(default_factory=list)
    metric: StepMetric = StepMetric()
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


class Trajectory(_Noted):
    """The messages, tool calls and observations of one attempt, in order."""

    schema_version: Literal["ACTF_v1.0"] = "ACTF_v1.0"
    steps: tuple[Step, ...] = ()
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
