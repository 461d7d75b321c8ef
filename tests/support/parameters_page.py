"""Writes docs/parameters.md from the models: `python -m tests.support.parameters_page`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentcompass.runtime.components import BUILT_IN, Kind, known
from agentcompass.runtime.parameters import parameters_of

PAGE: Final = Path(__file__).parents[2] / "docs" / "parameters.md"
_HEAD: Final = """# Parameters of what is built in

Given as `--param KIND.NAME=VALUE`, where the value is JSON or else text, or in a request file below `params`
of its component. `agentcompass list benchmark jsonl` prints the same, also of plug-ins of your own. Those of the model
(`--param model.temperature=0`) are sent with each call as they are; those of an analyzer are given as
`--param analyzer.ID.NAME=VALUE`.

This page is made from the code: `python -m tests.support.parameters_page`.
"""


def page() -> str:
    """Return what the page must say."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for kind in BUILT_IN:
        for name, about in known(kind):
            if name in BUILT_IN[kind]:
                yield from _of(kind, name, about)


def _of(kind: Kind, name: str, about: str) -> Iterator[str]:
    yield f"## {kind} `{name}`\n"
    yield f"{about}\n"
    found = parameters_of(kind, name)
    if not found:
        yield "No parameters.\n"
        return
    yield "| parameter | value | default | |\n|---|---|---|---|"
    for each in found:
        cells = (f"`{each.name}`", _cell(each.type), _default(each.shown), _cell(each.about))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _default(shown: str) -> str:
    return shown if shown == "required" else f"`{_cell(shown)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
