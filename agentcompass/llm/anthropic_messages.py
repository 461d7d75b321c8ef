"""Protocol `anthropic`: the Messages API over the official SDK, which is an optional package."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from agentcompass.errors import PermanentFailure
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
from agentcompass.llm.wire import (
    CONNECT_TIMEOUT_S,
    OUR_KEY,
    classified,
    client_of,
    headers_of,
    params_of,
)
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.extent import json_value

if TYPE_CHECKING:
    from anthropic import Anthropic

OFFICIAL_URL: Final = "https://api.anthropic.com"
RESERVED: Final = frozenset({"model", "messages", "system", "tools", "stream"})
DEFAULT_MAX_TOKENS: Final = 8_192
"""The protocol demands a bound; `model.max_tokens` is the user's own."""
_FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_DATA_URL: Final = re.compile(r"data:([\w/+.-]+);base64,", re.IGNORECASE)
_INPUT_COUNTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def send(endpoint: ModelEndpoint, request: ChatRequest, timeout_s: float) -> Reply:
    """Ask once; see `llm.base.Send`."""
    try:
        import anthropic
    except ModuleNotFoundError as error:
        raise PermanentFailure(
            "fatal",
            "setup",
            "setup_failed",
            "the protocol anthropic needs a package: pip install 'agentcompass-distributed[anthropic]'",
        ) from error
    body: JsonObject = {"max_tokens": DEFAULT_MAX_TOKENS, **params_of(endpoint, RESERVED)}
    system = [joined_text(m.get("content")) for m in request.messages if m.get("role") == "system"]
    if system:
        body["system"] = "\n\n".join(system)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    # Users give the same base URL whatever the protocol; this SDK adds the version by itself.
    base_url = re.sub(r"/v1/*$", "", endpoint.spec.base_url) or OFFICIAL_URL
    client = client_of("anthropic", base_url, _new_client)
    with classified(anthropic, timeout_s):
        response = client.messages.with_raw_response.create(
            model=endpoint.spec.id,
            max_tokens=cast("int", body.pop("max_tokens")),
            messages=cast("Any", messages_of(request.messages)),
            extra_body=body,
            extra_headers=_headers(endpoint, request),
            timeout=anthropic.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
        )
    raw = response.http_response
    return read_message(raw.content, request_id=raw.headers.get("request-id"))


def _new_client(base_url: str) -> Anthropic:
    from anthropic import Anthropic, DefaultHttpxClient

    # With a key given here, the SDK looks for none in the environment or in the user's home.
    return Anthropic(
        base_url=base_url,
        api_key=OUR_KEY,
        max_retries=0,
        http_client=DefaultHttpxClient(follow_redirects=False),
    )


def _headers(endpoint: ModelEndpoint, request: ChatRequest) -> dict[str, Any]:
    from anthropic import Omit

    key = endpoint.api_key
    ours = {"Authorization": Omit(), "X-Api-Key": Omit() if key is None else key.reveal()}
    return headers_of(endpoint, request, ours)


def _tool(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    if not isinstance(function, dict):
        return tool
    found: JsonObject = {
        "name": function.get("name"),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }
    described = function.get("description")
    return {**found, "description": described} if described else found


def messages_of(messages: tuple[JsonObject, ...]) -> list[JsonObject]:
    """Return a conversation in the protocol's form: turns take turns, tool results in one."""
    turns: list[tuple[str, list[JsonValue]]] = []
    for message in messages:
        if message.get("role") == "system":
            continue
        role = "assistant" if message.get("role") == "assistant" else "user"
        blocks = _blocks(message)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        elif blocks:
            turns.append((role, blocks))
    return [{"role": role, "content": content} for role, content in turns]


def _blocks(message: JsonObject) -> list[JsonValue]:
    native = objects(message.get(NATIVE))
    if native:
        return list(native)
    content = message.get("content")
    if message.get("role") == "tool":
        result: JsonObject = {
            "type": "tool_result",
            "tool_use_id": message.get("tool_call_id"),
            "content": joined_text(content),
        }
        return [result]
    text: JsonObject = {"type": "text", "text": content}
    parts: list[JsonValue] = content if isinstance(content, list) else [text]
    calls = objects(message.get("tool_calls"))
    # The server refuses a text of nothing.
    said = [_block(part) for part in parts if mapping(part).get("text") or not _is_text(part)]
    return [*said, *map(_tool_use, calls)]


def _is_text(part: JsonValue) -> bool:
    return mapping(part).get("type") == "text"


def _block(part: JsonValue) -> JsonValue:
    found = mapping(part)
    if found.get("type") != "image_url":
        return part
    url = joined_text(mapping(found.get("image_url")).get("url"))
    data = _DATA_URL.match(url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    source: JsonObject = {"type": "base64", "media_type": data[1], "data": url[data.end() :]}
    return {"type": "image", "source": source}


def _tool_use(call: JsonObject) -> JsonObject:
    function = mapping(call.get("function"))
    return {
        "type": "tool_use",
        "id": call.get("id"),
        "name": function.get("name"),
        "input": _arguments(function.get("arguments")),
    }


def _arguments(written: JsonValue) -> JsonObject:
    try:
        found = json_value(written) if isinstance(written, str) else written
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"malformed": written}


def read_message(raw: bytes, *, request_id: str | None = None) -> Reply:
    """Return what the model said.

    Raises:
        CallFailed: the answer is cut off, no JSON, has no content, or tells of an error.
    """
    body = json_object(raw)
    if body.get("error"):
        raise failed_inside(body["error"])
    if not isinstance(body.get("content"), list):
        raise broken("it has no content", raw)
    blocks = objects(body["content"])
    usage = mapping(body.get("usage"))
    prompt_tokens = _prompt_tokens(usage)
    stop = text_or_none(body.get("stop_reason"))
    thoughts = [joined_text(each.get("thinking")) for each in blocks]
    return Reply(
        content="".join(joined_text(b.get("text")) for b in blocks if b.get("type") == "text"),
        reasoning="\n".join(text for text in thoughts if text) or None,
        tool_calls=tuple(_call(block) for block in blocks if block.get("type") == "tool_use"),
        finish_reason=_FINISH.get(stop, stop) if stop else None,
        usage=usage if prompt_tokens is None else {**usage, "input_tokens": prompt_tokens},
        prompt_tokens=prompt_tokens,
        completion_tokens=count(usage.get("output_tokens")),
        cached_tokens=count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count(usage.get("cache_creation_input_tokens")),
        reasoning_tokens=count(mapping(usage.get("output_tokens_details")).get("thinking_tokens")),
        served_model=text_or_none(body.get("model")),
        request_id=request_id,
        native=blocks,
    )


def _prompt_tokens(usage: JsonObject) -> int | None:
    if count(usage.get("input_tokens")) is None:
        return None
    return sum(count(usage.get(name)) or 0 for name in _INPUT_COUNTS)


def _call(block: JsonObject) -> JsonObject:
    return {
        "id": block.get("id"),
        "type": "function",
        "function": {"name": block.get("name"), "arguments": json.dumps(block.get("input"))},
    }
