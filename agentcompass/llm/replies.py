"""Reads an answer of a chat completions endpoint, and takes no field for granted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from agentcompass.llm.base import CallFailed, FailureKind, Reply
from agentcompass.models.base import JsonObject

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
    body = _object(raw)
    error = body.get("error")
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        raise _failed_inside(error) if error else _broken("it has no choices", raw)
    message = first.get("message")
    if not isinstance(message, dict):
        raise _broken("its first choice has no message", raw)
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    calls = message.get("tool_calls")
    return Reply(
        content=_text(message.get("content")),
        reasoning=reasoning if isinstance(reasoning, str) else None,
        tool_calls=tuple(c for c in calls if isinstance(c, dict))
        if isinstance(calls, list)
        else (),
        finish_reason=_text_or_none(first.get("finish_reason")),
        usage=usage,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        served_model=_text_or_none(body.get("model")),
        request_id=request_id,
    )


def server_words(raw: bytes) -> str:
    """Return what an error answer says, on one line and cut to a readable length."""
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    error = body.get("error", body) if isinstance(body, dict) else None
    said = error.get("message") if isinstance(error, Mapping) else error
    text = said if isinstance(said, str) and said else raw.decode("utf-8", "replace")
    return " ".join(text.split())[:_SHOWN]


def _object(raw: bytes) -> JsonObject:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise _broken("it is not JSON", raw) from error
    if not isinstance(body, dict):
        raise _broken("it is not a JSON object", raw)
    return cast("JsonObject", body)


def _broken(reason: str, raw: bytes) -> CallFailed:
    start = " ".join(raw[:_SHOWN].decode("utf-8", "replace").split())
    return CallFailed("unavailable", f"the server's answer is broken: {reason}: {start[:80]!r}")


def _failed_inside(error: object) -> CallFailed:
    code = error.get("code") if isinstance(error, dict) else None
    status = (
        int(code) if isinstance(code, int) or (isinstance(code, str) and code.isdigit()) else 500
    )
    words = server_words(json.dumps({"error": error}).encode())
    return CallFailed(kind_of(status), f"the server answered with an error: {words}", status=status)


def _text(content: object) -> str:
    """Return the text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
