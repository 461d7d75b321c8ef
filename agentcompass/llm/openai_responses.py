"""Protocol `openai-responses`: the Responses API, with nothing kept at the provider.

The conversation goes along with every request (`store` is false unless the model's params say
otherwise). Reasoning can then only be handed back encrypted: let the model's params have
`"include": ["reasoning.encrypted_content"]` where the model offers that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, cast

from pydantic import JsonValue

from agentcompass.llm import openai_sdk
from agentcompass.llm.base import NATIVE, ChatRequest, Reply
from agentcompass.llm.replies import (
    broken,
    count,
    failed_inside,
    joined_text,
    json_object,
    mapping,
    objects,
    text_or_none,
)
from agentcompass.llm.wire import params_of
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint

RESERVED: Final = frozenset(
    {"model", "input", "tools", "stream", "background", "conversation", "previous_response_id"}
)
_CUT_OFF: Final = {"max_output_tokens": "length"}


def send(endpoint: ModelEndpoint, request: ChatRequest, timeout_s: float) -> Reply:
    """Ask once; see `llm.base.Send`."""
    body: JsonObject = {"store": False, **params_of(endpoint, RESERVED)}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    with openai_sdk.asking(endpoint, timeout_s) as (client, timeout):
        response = client.responses.with_raw_response.create(
            model=endpoint.spec.id,
            input=cast("Any", [item for message in request.messages for item in _items(message)]),
            extra_body=body,
            extra_headers=openai_sdk.headers(endpoint, request),
            timeout=timeout,
        )
    raw = response.http_response
    return read_response(raw.content, request_id=raw.headers.get("x-request-id"))


def _tool(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    if not isinstance(function, dict):
        return tool
    # Unlike chat completions, this protocol is strict if nothing is said, and then refuses schemas
    # with optional parameters.
    return {"type": "function", "strict": False, "parameters": None, **function}


def _items(message: JsonObject) -> Iterator[JsonObject]:
    native = objects(message.get(NATIVE))
    if native:
        yield from native
        return
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.get("tool_call_id"),
            "output": joined_text(content),
        }
        return
    if content:
        yield {"role": role, "content": _content(role, content)}
    for call in objects(message.get("tool_calls")):
        function = mapping(call.get("function"))
        yield {
            "type": "function_call",
            "call_id": call.get("id"),
            "name": function.get("name"),
            "arguments": function.get("arguments"),
        }


def _content(role: JsonValue, content: JsonValue) -> JsonValue:
    if not isinstance(content, list):
        return content
    kind = "output_text" if role == "assistant" else "input_text"
    return [_part(part, kind) for part in content]


def _part(part: JsonValue, kind: str) -> JsonValue:
    found = mapping(part)
    if found.get("type") == "text":
        return {"type": kind, "text": found.get("text")}
    if found.get("type") == "image_url":
        image = mapping(found.get("image_url"))
        return {
            "type": "input_image",
            "image_url": image.get("url"),
            "detail": image.get("detail", "auto"),
        }
    return part


def read_response(raw: bytes, *, request_id: str | None = None) -> Reply:
    """Return what the model said.

    Raises:
        CallFailed: the answer is cut off, no JSON, has no output, or tells of an error.
    """
    body = json_object(raw)
    if body.get("error") or body.get("status") in ("failed", "cancelled"):
        raise failed_inside(body.get("error") or {"message": f"status {body.get('status')}"})
    if not isinstance(body.get("output"), list):
        raise broken("it has no output", raw)
    output = objects(body["output"])
    calls = tuple(_call(item) for item in output if item.get("type") == "function_call")
    usage = mapping(body.get("usage"))
    return Reply(
        content="".join(map(_said, output)),
        reasoning="\n".join(text for text in map(_thought, output) if text) or None,
        tool_calls=calls,
        finish_reason=_finish(body, has_calls=bool(calls)),
        usage=usage,
        prompt_tokens=count(usage.get("input_tokens")),
        completion_tokens=count(usage.get("output_tokens")),
        cached_tokens=count(mapping(usage.get("input_tokens_details")).get("cached_tokens")),
        reasoning_tokens=count(mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
        served_model=text_or_none(body.get("model")),
        request_id=request_id,
        native=tuple(_portable(item) for item in output if _is_portable(item)),
    )


def _said(item: JsonObject) -> str:
    if item.get("type") != "message":
        return ""
    parts = objects(item.get("content"))
    return "".join(joined_text(part.get("text") or part.get("refusal")) for part in parts)


def _thought(item: JsonObject) -> str:
    if item.get("type") != "reasoning":
        return ""
    return joined_text(item.get("content")) or joined_text(item.get("summary"))


def _call(item: JsonObject) -> JsonObject:
    arguments = item.get("arguments")
    return {
        "id": item.get("call_id"),
        "type": "function",
        "function": {
            "name": item.get("name"),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        },
    }


def _finish(body: JsonObject, *, has_calls: bool) -> str | None:
    reason = text_or_none(mapping(body.get("incomplete_details")).get("reason"))
    if reason is not None:
        return _CUT_OFF.get(reason, reason)
    if body.get("status") == "completed":
        return "tool_calls" if has_calls else "stop"
    return text_or_none(body.get("status"))


def _is_portable(item: JsonObject) -> bool:
    """Return False for what means something only to a provider that has kept it."""
    return item.get("type") != "reasoning" or bool(item.get("encrypted_content"))


def _portable(item: JsonObject) -> JsonObject:
    """Return an item that stands for itself.

    The id of a message or a call would tie it to reasoning that may not go along.
    """
    if item.get("type") == "message":
        kept: JsonObject = {name: item[name] for name in ("role", "phase") if name in item}
        return {**kept, "content": _said(item)}
    if item.get("type") == "reasoning":
        return item
    return {name: value for name, value in item.items() if name != "id"}
