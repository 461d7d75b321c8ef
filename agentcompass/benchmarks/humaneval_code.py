"""Finds the program in a model's answer; pure text work, nothing is parsed or run here.

An answer is prose with fenced blocks, a bare function, or a bare continuation of the prompt.
What it means cannot always be told from the text, so this yields candidates, the likeliest
first; the process that executes takes the first one that compiles.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from agentcompass.benchmarks.answers import visible

_FENCE: Final = re.compile(
    r"^[ \t]*(?P<mark>```+|~~~+)[ \t]*(?P<lang>[\w+-]*)[^\n]*\n(?P<code>.*?)(?:^[ \t]*(?P=mark)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_START_OF_CODE: Final = re.compile(
    r"^(?:from\s|import\s|def\s|class\s|async\s+def\s|@)", re.MULTILINE
)
_FUTURE: Final = re.compile(r"^from __future__ import .*\n?", re.MULTILINE)
_PYTHON: Final = frozenset({"", "python", "py", "python3"})
_INDENT: Final = "    "


def candidates(prompt: str, entry_point: str, answer: str) -> list[str]:
    """Return programs that define the entry point, the likeliest first, at least one.

    Args:
        prompt: imports, helpers, and the signature and docstring to complete.
        entry_point: the name of the function.
        answer: all that the model said.
    """
    said = visible(answer)
    programs = (
        program
        for code in _codes(said, entry_point)
        for program in _programs(prompt, entry_point, code)
    )
    return list(dict.fromkeys(programs))


def _codes(said: str, entry_point: str) -> Iterator[str]:
    """Yield what may be the code: the last block that defines the function, else the text."""
    blocks = [m["code"] for m in _FENCE.finditer(said) if m["lang"].lower() in _PYTHON]
    defining = [code for code in blocks if _defines(code, entry_point)]
    if defining:
        yield defining[-1]
    elif blocks:
        yield blocks[0]
    else:
        yield said
    if not blocks and _defines(said, entry_point):
        yield from _without_prose(said, entry_point)


def _defines(code: str, name: str) -> bool:
    pattern = rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(name)}[ \t]*\("
    return re.search(pattern, code, re.MULTILINE) is not None


def _without_prose(said: str, entry_point: str) -> Iterator[str]:
    """Yield the text from its first line of code on, then only up to the function's end."""
    start = _START_OF_CODE.search(said)
    if start is None:
        return
    code = said[start.start() :]
    yield code
    kept: list[str] = []
    defined = False
    for line in code.splitlines(keepends=True):
        if defined and line.strip() and not line[0].isspace():
            break
        defined = defined or _defines(line, entry_point)
        kept.append(line)
    yield "".join(kept)


def _programs(prompt: str, entry_point: str, code: str) -> Iterator[str]:
    if _defines(code, entry_point):
        head = prompt[: _signature_start(prompt, entry_point)]
        yield _joined(head, textwrap.dedent(code))
        return
    for body in _bodies(code):
        yield prompt + ("" if prompt.endswith("\n") else "\n") + body


def _signature_start(prompt: str, entry_point: str) -> int:
    found = re.search(rf"^def[ \t]+{re.escape(entry_point)}\b", prompt, re.MULTILINE)
    return found.start() if found else 0


def _joined(head: str, code: str) -> str:
    """Put the prompt's imports and helpers before a whole function; `__future__` stays first."""
    future = "".join(line.rstrip("\n") + "\n" for line in _FUTURE.findall(code))
    return future + head + "\n" + _FUTURE.sub("", code)


def _bodies(code: str) -> Iterator[str]:
    """Yield a continuation as it is, with the indentation of its first line given back, indented.

    A body that was stripped has lost the indentation of its first line only.
    """
    body = code.strip("\n") + "\n"
    if body[0].isspace():
        yield body
        return
    yield _INDENT + body
    yield textwrap.indent(body, _INDENT)
