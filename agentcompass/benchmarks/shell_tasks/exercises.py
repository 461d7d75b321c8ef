"""The tasks as they are written down: one file each, in the folder `tasks`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml
from pydantic import Field

from agentcompass.models.base import Frozen

FOLDER: Final = Path(__file__).with_name("tasks")


class Case(Frozen):
    """One hidden test: a command line, and what it must print."""

    run: str
    """Run by `sh -c` in the working directory."""
    stdin: str = ""
    expected: str
    """All of standard output."""
    exit_code: int = 0


class Exercise(Frozen):
    """One task."""

    id: str
    category: str
    prompt: str
    files: dict[str, str] = Field(default_factory=dict)
    """What the agent finds in its working directory."""
    answer: tuple[str, ...]
    """Files and folders that hold what it has done."""
    cases: tuple[Case, ...]
    solution: dict[str, str]
    """One that passes; it proves that the task can be solved."""


def exercises() -> Iterator[Exercise]:
    """Yield the tasks in the order of their ids."""
    for path in sorted(FOLDER.glob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield Exercise.model_validate({"id": path.stem, **content}, strict=False)
