"""The protocols of the scripted server: what a request says, and how an answer is said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

JsonMap = Mapping[str, object]

_PAGES = {
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
    "/messages": "anthropic",
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool that the model makes."""

    name: str
    arguments: Mapping[str, object] | str
    """A text is sent as it is, where the protocol has arguments as text: for malformed ones."""
    id: str = "call-1"


@dataclass(frozen=True, slots=True)
class Heard:
    """What a request says, whatever its protocol."""

    first: str = ""
    """The text of the first user message: the task."""
    turns: int = 0
    """How often the model has spoken already."""
    results: tuple[str, ...] = ()
    """What the tools returned since it last spoke."""
    tools: tuple[str, ...] = ()
    """The names of the tools that it is offered."""
    last: str = ""
    """The text of what came since it last spoke, of tools or users."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request as the script sees it."""

    prompt: str
    """The text of the last user message."""
    body: JsonMap
    headers: Mapping[str, str]
    """Names in lower case."""
    seen: int
    """How often this prompt has been asked, this time included; starts at 1."""
    heard: Heard = Heard()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server sends back."""

    content: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    reasoning: str | None = None
    finish_reason: str = "stop"
    """In the words of chat completions; other protocols get their own."""
    body: bytes | None = None
    """Sent as it is instead of a completion; for answers that are no valid completion."""
    stall: bool = False
    """Say nothing until the server stops."""
    tool_calls: tuple[ToolCall, ...] = ()
    cached_tokens: int | None = None
    """How many of the prompt's tokens are said to come from a cache."""
    reasoning_tokens: int | None = None


def protocol_of(path: str) -> str | None:
    """Return the protocol that a page speaks, None for any other page."""
    return next((name for page, name in _PAGES.items() if path.rstrip("/").endswith(page)), None)


def last_user_text(body: JsonMap) -> str:
    """Return the text of the last user message, "" if there is none."""
    texts = [text for role, text in _spoken(_messages(body)) if role == "user"]
    return texts[-1] if texts else ""


def heard(protocol: str, body: JsonMap) -> Heard:
    """Return what a request says."""
    spoken = list(_spoken(_messages(body)))
    users = [text for role, text in spoken if role == "user"]
    since = spoken
    turns = 0
    for number, (role, _) in enumerate(spoken):
        if role == "assistant":
            turns += 0 if number and spoken[number - 1][0] == "assistant" else 1
            since = spoken[number + 1 :]
    return Heard(
        first=users[0] if users else "",
        turns=turns,
        results=tuple(text for role, text in since if role == "tool"),
        tools=tuple(_tool_names(protocol, body)),
        last="\n".join(text for _, text in since),
    )


def _messages(body: JsonMap) -> Sequence[object]:
    found = body.get("messages", body.get("input"))
    return found if isinstance(found, list) else []


def _spoken(messages: Sequence[object]) -> Iterator[tuple[str, str]]:
    """Yield role and text of everything in a conversation, tool results with the role `tool`."""
    for message in messages:
        if not isinstance(message, dict):
            continue
        kind = message.get("type")
        if kind == "function_call_output":
            yield "tool", _text(message.get("output"))
        elif kind in {"function_call", "reasoning"}:
            yield "assistant", ""
        else:
            yield from _parts(str(message.get("role")), message.get("content"))


def _parts(role: str, content: object) -> Iterator[tuple[str, str]]:
    blocks = content if isinstance(content, list) else []
    results = [b for b in blocks if isinstance(b, dict) and b.get("type") == "tool_result"]
    for block in results:
        yield "tool", _text(block.get("content"))
    if not results or _text(content):
        yield role, _text(content)


def _text(content: object) -> str:
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _tool_names(protocol: str, body: JsonMap) -> Iterator[str]:
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        yield str(tool["function"]["name"] if protocol == "openai-chat" else tool["name"])


def said(protocol: str, answer: Answer, call: Call) -> JsonMap:
    """Return an answer in the form of its protocol."""
    asked, completed = len(call.prompt.split()), len(answer.content.split())
    match protocol:
        case "openai-responses":
            return _as_response(answer, call, asked, completed)
        case "anthropic":
            return _as_message(answer, call, asked, completed)
        case _:
            return _as_completion(answer, call, asked, completed)


def _arguments(call: ToolCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _as_completion(answer: Answer, call: Call, asked: int, completed: int) -> JsonMap:
    message: dict[str, object] = {"role": "assistant", "content": answer.content}
    if answer.reasoning is not None:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": each.id,
                "type": "function",
                "function": {"name": each.name, "arguments": _arguments(each)},
            }
            for each in answer.tool_calls
        ]
    finish = "tool_calls" if answer.tool_calls else answer.finish_reason
    usage: dict[str, object] = {
        "prompt_tokens": asked,
        "completion_tokens": completed,
        "total_tokens": asked + completed,
    }
    if answer.cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": answer.cached_tokens}
    if answer.reasoning_tokens is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": answer.reasoning_tokens}
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": call.body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage,
    }


def _as_response(answer: Answer, call: Call, asked: int, completed: int) -> JsonMap:
    output: list[JsonMap] = []
    if answer.reasoning is not None:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        output.append({"type": "reasoning", "id": "rs_1", "summary": summary})
    if answer.content:
        content = [{"type": "output_text", "text": answer.content, "annotations": []}]
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        output.append({**message, "content": content})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{each.id}",
            "call_id": each.id,
            "name": each.name,
            "arguments": _arguments(each),
        }
        for each in answer.tool_calls
    ]
    is_cut_off = answer.finish_reason == "length"
    usage: dict[str, object] = {"input_tokens": asked, "output_tokens": completed}
    if answer.cached_tokens is not None:
        usage["input_tokens_details"] = {"cached_tokens": answer.cached_tokens}
    if answer.reasoning_tokens is not None:
        usage["output_tokens_details"] = {"reasoning_tokens": answer.reasoning_tokens}
    return {
        "id": "resp_scripted",
        "object": "response",
        "created_at": 0,
        "model": call.body.get("model"),
        "status": "incomplete" if is_cut_off else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut_off else None,
        "output": output,
        "usage": usage,
    }


def _as_message(answer: Answer, call: Call, asked: int, completed: int) -> JsonMap:
    content: list[JsonMap] = []
    if answer.reasoning is not None:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": "signed"})
    if answer.content:
        content.append({"type": "text", "text": answer.content})
    content += [
        {"type": "tool_use", "id": each.id, "name": each.name, "input": _input(each)}
        for each in answer.tool_calls
    ]
    words = {"stop": "end_turn", "length": "max_tokens"}
    cached = answer.cached_tokens or 0
    usage: dict[str, object] = {"input_tokens": asked - cached, "output_tokens": completed}
    if answer.cached_tokens is not None:
        usage["cache_read_input_tokens"] = cached
    if answer.reasoning_tokens is not None:
        usage["output_tokens_details"] = {"thinking_tokens": answer.reasoning_tokens}
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": call.body.get("model"),
        "content": content,
        "stop_reason": "tool_use"
        if answer.tool_calls
        else words.get(answer.finish_reason, answer.finish_reason),
        "usage": usage,
    }


def _input(call: ToolCall) -> object:
    """Return arguments as this protocol has them; what is no JSON stays a text."""
    if not isinstance(call.arguments, str):
        return call.arguments
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments
