"""What we send, and what the scripted server answers, are what the SDKs' own types allow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter

from agentcompass.harnesses.tool_loop.tools import ALL_TOOLS, Toolbox
from agentcompass.llm.base import ChatRequest, Reply
from agentcompass.llm.protocols import send
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import ModelSpec
from demo.scripted_wires import said
from tests.support.scripted_server import Answer, Call, InOrder, ScriptedServer, ToolCall

ANSWER = Answer(
    "Let me see.",
    reasoning="hm",
    tool_calls=(ToolCall("bash", {"command": "ls"}),),
    cached_tokens=1,
    reasoning_tokens=1,
)
ASKED: tuple[JsonObject, ...] = (
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ],
    },
)
TOOLS = Toolbox(None, None, ALL_TOOLS, 1_000).definitions  # type: ignore[arg-type]  # only told


def conversation(first: Reply) -> tuple[JsonObject, ...]:
    """Return one in which everything occurs that a harness may say."""
    call: Any = first.tool_calls[0]
    result: JsonObject = {"role": "tool", "tool_call_id": call["id"], "content": "a file"}
    plain: JsonObject = {"role": "assistant", "content": "I see.", "tool_calls": [call]}
    return (*ASKED, first.message(), result, plain, result, {"role": "user", "content": "Go on."})


def sent(protocol: str) -> Mapping[str, Any]:
    """Return the body of the second request of a conversation."""
    with ScriptedServer(InOrder(ANSWER, ANSWER)) as server:
        spec = ModelSpec.model_validate(
            {"id": "m", "base_url": server.base_url, "api_protocol": protocol}
        )
        first = send(ModelEndpoint(spec=spec), ChatRequest(ASKED, TOOLS), 10.0)
        send(ModelEndpoint(spec=spec), ChatRequest(conversation(first), TOOLS), 10.0)
        return server.traffic.calls[1].body


def is_allowed(kind: Any, value: object) -> bool:
    adapter = TypeAdapter(kind)  # lives until everything was looked at, which needs it
    drained(adapter.validate_python(value))
    return True


def drained(value: object) -> None:
    """Look at everything: what the types call iterable is validated when it is read."""
    if isinstance(value, Mapping):
        for each in value.values():
            drained(each)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for each in value:
            drained(each)


@pytest.mark.parametrize(
    ("protocol", "place"),
    [("openai-chat", "messages"), ("openai-responses", "input"), ("anthropic", "messages")],
)
def test_a_request_is_what_its_protocol_allows(protocol: str, place: str) -> None:
    messages, tools = types_of_requests(protocol)

    body = sent(protocol)

    assert is_allowed(messages, body[place])
    assert is_allowed(tools, body["tools"])
    assert "native" not in json.dumps(body)


def types_of_requests(protocol: str) -> tuple[Any, Any]:
    """Return the types of messages and of tools; here, because the SDKs are slow to import."""
    from anthropic.types import MessageParam, ToolParam
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
    from openai.types.responses import FunctionToolParam, ResponseInputItemParam

    return {
        "openai-chat": (
            list[ChatCompletionMessageParam],
            list[ChatCompletionToolUnionParam],
        ),
        "openai-responses": (list[ResponseInputItemParam], list[FunctionToolParam]),
        "anthropic": (list[MessageParam], list[ToolParam]),
    }[protocol]


def test_the_scripted_server_answers_as_the_real_ones_do() -> None:
    from anthropic.types import Message
    from openai.types.chat import ChatCompletion
    from openai.types.responses import ResponseOutputItem

    call = Call("hi", {"model": "m"}, {}, 1)

    assert is_allowed(ChatCompletion, said("openai-chat", ANSWER, call))
    assert is_allowed(Message, {**said("anthropic", ANSWER, call), "stop_sequence": None})
    assert is_allowed(list[ResponseOutputItem], said("openai-responses", ANSWER, call)["output"])
