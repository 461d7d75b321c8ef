from __future__ import annotations

import json

from agentcompass.llm.base import ChatRequest
from agentcompass.llm.openai_responses import read_response, send
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import ModelSpec
from tests.support.scripted_server import Answer, InOrder, ScriptedServer


def sent(*messages: JsonObject, params: JsonObject | None = None) -> JsonObject:
    """Return the body that the server gets."""
    with ScriptedServer(InOrder(Answer("ok"))) as server:
        spec = ModelSpec(id="m", base_url=server.base_url, params=params or {})
        send(ModelEndpoint(spec=spec), ChatRequest(messages), 10.0)
        body: JsonObject = json.loads(json.dumps(server.traffic.calls[0].body))
    return body


def a_response(*output: JsonObject, **more: object) -> bytes:
    return json.dumps({"status": "completed", "output": output, **more}).encode()


def test_nothing_is_kept_at_the_provider_unless_asked_for() -> None:
    user: JsonObject = {"role": "user", "content": "hi"}

    assert sent(user)["store"] is False
    assert sent(user, params={"store": True})["store"] is True


def test_only_encrypted_reasoning_goes_back_and_no_other_item_is_tied_to_what_does_not() -> None:
    raw = a_response(
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "xyz"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a"}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
    )

    items = sent({"role": "user", "content": "hi"}, read_response(raw).message())["input"]

    assert isinstance(items, list)
    assert items[1:] == [
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "xyz"},
        {"role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    ]


def test_a_conversation_that_another_protocol_began_is_translated() -> None:
    call: JsonObject = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    items = sent(
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "a", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
    )["input"]

    assert items == [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:,", "detail": "auto"}],
        },
    ]


def test_a_refusal_is_an_answer() -> None:
    part: JsonObject = {"type": "refusal", "refusal": "I will not."}

    reply = read_response(a_response({"type": "message", "content": [part]}))

    assert reply.content == "I will not."
