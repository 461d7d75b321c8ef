"""What counts as the answer in what a model said."""

from __future__ import annotations

import json
import re
from typing import Final

_REASONING: Final = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_END_OF_REASONING: Final = re.compile(r"^.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


def visible(answer: str) -> str:
    """Return an answer without the model's reasoning between `<think>` and `</think>`.

    Some servers swallow the opening tag, so everything before a lone closing one goes as well.
    Reasoning that never ends was cut off: nothing was answered, and the text is kept as it is.
    """
    return _END_OF_REASONING.sub("", _REASONING.sub("", answer))


def text_of(answer: object) -> str:
    """Return a final answer as text: itself, "" for none, JSON for anything structured."""
    if answer is None:
        return ""
    return answer if isinstance(answer, str) else json.dumps(answer, default=str)
