"""Shell commands of an agent: how they are run, and what is shown of what they print."""

from __future__ import annotations

from typing import Final

_BASH_IF_THERE: Final = (
    'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'
)
"""Models write for bash; small images only have sh."""


def shell(command: str, *, merged: bool = False) -> list[str]:
    """Return the words that run a command line; `merged` sends its errors to its output."""
    script = f"exec 2>&1; {_BASH_IF_THERE}" if merged else _BASH_IF_THERE
    return ["sh", "-c", script, "sh", command]


def cut(text: str, limit: int) -> str:
    """Return the beginning and the end of a text, at most `limit` characters of it."""
    left_out = len(text) - limit
    if left_out <= 0:
        return text
    head = limit // 2
    tail = text[len(text) - (limit - head) :]
    return f"{text[:head]}\n[… {left_out} characters left out …]\n{tail}"
