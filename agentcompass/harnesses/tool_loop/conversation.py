"""Keeps a conversation within what a model can read; pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from agentcompass.models.base import JsonObject

LEFT_OUT: Final = "[left out: the conversation grew too long]"
_AIM: Final = 0.75
"""Of the budget: room for some turns, so that not every turn changes what a provider has cached."""
FIRST_CHARS_PER_TOKEN: Final = 3.0
"""Until the model has counted once; on the safe side for English and code."""
_CHARS_PER_TOKEN: Final = (1.0, 6.0)
"""No tokenizer is outside of this; a server that counts otherwise must not turn the budget off."""


def chars_per_token(messages: Sequence[JsonObject], tokens: int) -> float:
    """Return how long the tokens of this conversation are, as the model counted them."""
    least, most = _CHARS_PER_TOKEN
    return max(least, min(most, size_of(messages) / tokens))


def size_of(messages: Sequence[JsonObject]) -> int:
    """Return the size of a conversation in characters, as it is sent."""
    return sum(len(json.dumps(message, ensure_ascii=False)) for message in messages)


def fitted(messages: Sequence[JsonObject], budget_chars: float) -> tuple[JsonObject, ...] | None:
    """Return the conversation with its oldest tool results left out, as many as must be.

    The results that the model has not seen yet stay. None if it is too long all the same.
    """
    size = size_of(messages)
    if size <= budget_chars:
        return tuple(messages)
    kept = list(messages)
    for number, message in enumerate(messages[: _unseen(messages)]):
        if message.get("role") != "tool":
            continue
        kept[number] = {**message, "content": LEFT_OUT}
        size += size_of([kept[number]]) - size_of([message])
        if size <= budget_chars * _AIM:
            break
    return tuple(kept) if size <= budget_chars else None


def _unseen(messages: Sequence[JsonObject]) -> int:
    """Return where the messages begin that came after the model last spoke."""
    spoken = [n for n, message in enumerate(messages) if message.get("role") == "assistant"]
    return spoken[-1] + 1 if spoken else 0
