"""Reads a JSON lines file of a user, strictly and streaming; every complaint names the line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NoReturn

from pydantic import JsonValue

from agentcompass.errors import UsageError
from agentcompass.models.extent import Pairs, json_value

_HINT: Final = "correct that line; a line is one JSON object, and its columns are named by --param"


@dataclass(frozen=True, slots=True)
class Row:
    """One line that holds something."""

    path: Path
    number: int
    """Starts at 1 and counts blank lines, as an editor does."""
    columns: dict[str, JsonValue]

    def problem(self, what: str) -> UsageError:
        """Return the error that names this line."""
        return _problem(self.path, self.number, what)


def rows(path: Path) -> Iterator[Row]:
    """Yield the lines that are not blank, in order.

    Raises:
        UsageError: the file cannot be read, is empty, or a line is no JSON object.
    """
    number = 0
    found = False
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    found = True
                    yield Row(path, number, _columns(path, number, line))
    except (OSError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(
            f"the questions cannot be read: {reason}",
            where=str(path),
            hint="give the file with --param benchmark.path=FILE",
        ) from error
    except UnicodeDecodeError as error:
        raise _problem(
            path, number + 1, f"it or a line near it is not UTF-8: {error.reason}"
        ) from error
    if not found:
        raise UsageError("there is no question in the file", where=str(path), hint="add a line")


def _opened(path: Path) -> IO[str]:
    # utf-8-sig: some editors put a byte order mark in front, which is no part of the first line.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _columns(path: Path, number: int, line: str) -> dict[str, JsonValue]:
    try:
        value = json_value(line, of_pairs=_without_duplicates, of_constant=_no_number)
    except json.JSONDecodeError as error:
        raise _problem(path, number, f"not JSON: {error.msg} at column {error.colno}") from error
    except ValueError as error:
        raise _problem(path, number, str(error)) from error
    if not isinstance(value, dict):
        raise _problem(path, number, "not a JSON object")
    return value


def _without_duplicates(pairs: Pairs) -> dict[str, JsonValue]:
    columns = dict(pairs)
    if len(columns) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"column {max(names, key=names.count)!r} is given twice")
    return columns


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _problem(path: Path, number: int, what: str) -> UsageError:
    return UsageError(f"line {number}: {what}", where=f"{path}:{number}", hint=_HINT)
