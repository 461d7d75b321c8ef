"""Reads an answer, and takes no field for granted: what all protocols share, and chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from agentcompass.llm.base import CallFailed, FailureKind, Reply
from agentcompass.models.base import JsonObject
from agentcompass.models.extent import json_value

_REFUSED: Final = frozenset({401, 402, 403})
_WORTH_ASKING_AGAIN: Final = frozenset({408, 409, 425, 429})
_SHOWN: Final = 300
"""Characters of a server's own words in a message."""


def kind_of(status: int) -> FailureKind:
    """Return what a status means for the next request; redirects are not followed."""
    if status in _REFUSED:
        return "refused"
    return "unavailable" if status in _WORTH_ASKING_AGAIN or status >= 500 else "rejected"


def read_reply(raw: bytes, *, request_id: str | None = None) -> Reply:
    """Return what the model said.

    Raises:
        CallFailed: the answer is cut off, no JSON, has no choice, or is an error in spite of
            its status 200 (some gateways do that).
    """
    body = json_object(raw)
    error = body.get("error")
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        raise failed_inside(error) if error else broken("it has no choices", raw)
    message = first.get("message")
    if not isinstance(message, dict):
        raise broken("its first choice has no message", raw)
    usage = mapping(body.get("usage"))
    prompt = mapping(usage.get("prompt_tokens_details"))
    completion = mapping(usage.get("completion_tokens_details"))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return Reply(
        content=joined_text(message.get("content")) or joined_text(message.get("refusal")),
        reasoning=reasoning if isinstance(reasoning, str) else None,
        tool_calls=objects(message.get("tool_calls")),
        finish_reason=text_or_none(first.get("finish_reason")),
        usage=usage,
        prompt_tokens=count(usage.get("prompt_tokens")),
        completion_tokens=count(usage.get("completion_tokens")),
        cached_tokens=count(prompt.get("cached_tokens")),
        reasoning_tokens=count(completion.get("reasoning_tokens")),
        served_model=text_or_none(body.get("model")),
        request_id=request_id,
    )


def server_words(raw: bytes) -> str:
    """Return what an error answer says, on one line and cut to a readable length."""
    try:
        body = json_value(raw)
    except ValueError:
        body = None
    error = body.get("error", body) if isinstance(body, dict) else None
    said = error.get("message") if isinstance(error, Mapping) else error
    text = said if isinstance(said, str) and said else raw.decode("utf-8", "replace")
    return " ".join(text.split())[:_SHOWN]


def json_object(raw: bytes) -> JsonObject:
    """Return an answer's JSON object.

    Raises:
        CallFailed: it is none; perhaps the next answer is.
    """
    try:
        body = json_value(raw)
    except ValueError as error:
        raise broken("it is not JSON", raw) from error
    if not isinstance(body, dict):
        raise broken("it is not a JSON object", raw)
    return body


def broken(reason: str, raw: bytes) -> CallFailed:
    """Return the failure of an answer that cannot be read."""
    start = " ".join(raw[:_SHOWN].decode("utf-8", "replace").split())
    return CallFailed("unavailable", f"the server's answer is broken: {reason}: {start[:80]!r}")


def failed_inside(error: object) -> CallFailed:
    """Return the failure that an answer with status 200 tells in its body."""
    code = error.get("code") if isinstance(error, dict) else None
    status = (
        int(code) if isinstance(code, int) or (isinstance(code, str) and code.isdigit()) else 500
    )
    words = server_words(json.dumps({"error": error}).encode())
    return CallFailed(kind_of(status), f"the server answered with an error: {words}", status=status)


def joined_text(content: object) -> str:
    """Return the text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def text_or_none(value: object) -> str | None:
    """Return a text, and None for anything else."""
    return value if isinstance(value, str) else None


def mapping(value: object) -> JsonObject:
    """Return an object, empty for anything else."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> tuple[JsonObject, ...]:
    """Return the objects of a list, none for anything else."""
    return (
        tuple(each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()
    )


def count(value: object) -> int | None:
    """Return a whole number, and None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
