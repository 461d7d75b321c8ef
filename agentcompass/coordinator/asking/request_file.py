"""A request file as plain JSON values: YAML, TOML or JSON, nothing executed, nothing guessed."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

from pydantic import JsonValue

from agentcompass.errors import UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.extent import Pairs, json_value, refuse_excess


def read_request_file(path: Path) -> JsonObject:
    """Return the content of `path`; UsageError with the line if it cannot be used."""
    return read_mapping(path, "request file", "`benchmark: {id: humaneval}`")


def read_mapping(path: Path, what: str, example: str = "`name: value`") -> JsonObject:
    """Return the content of a file that holds fields; UsageError with the line if it cannot be used.

    Duplicate keys, non-text keys, dates and non-finite numbers are refused by name: each of them
    would otherwise become something that the author did not write.

    Args:
        path: `.toml`, `.json`, anything else is YAML.
        what: what the file is, for messages.
        example: a field that it may hold, for messages.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read the {what}: {reason}", where=str(path)) from error
    try:
        content = _parse(path, text)
        refuse_excess(content)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the {what} is not valid: {_one_line(error)}",
            where=str(path),
            hint="write YAML, TOML (.toml) or JSON (.json)",
        ) from error
    if not isinstance(content, dict):
        raise UsageError(f"the {what} must hold fields, such as {example}", where=str(path))
    return {name: plain(value, name, str(path)) for name, value in content.items()}


def parsed_json(text: str, where: str) -> JsonValue:
    """Return JSON given in an option by the same rules; UsageError if it is none."""
    try:
        return plain(json_value(text, of_pairs=_distinct), "it", where)
    except ValueError as error:
        raise UsageError(f"not valid JSON: {_one_line(error)}", where=where) from error


def plain(value: object, path: str, where: str) -> JsonValue:
    """Return `value` if it is JSON all the way down; UsageError naming the field if it is not."""
    if isinstance(value, dict):
        return {key: plain(item, f"{path}.{key}", where) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, f"{path}[{index}]", where) for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{path} is not a finite number", where=where)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise UsageError(
        f"{path} is a {type(value).__name__}, which JSON does not have",
        where=where,
        hint="put it in quotes",
    )


def _parse(path: Path, text: str) -> object:
    match path.suffix.lower():
        case ".toml":
            return tomllib.loads(text)
        case ".json":
            return json_value(text, of_pairs=_distinct)
        case _:
            # Imported here, because most commands read no YAML.
            from agentcompass.coordinator.asking.strict_yaml import load

            return load(text)


def _distinct(pairs: Pairs) -> JsonObject:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} is given twice")
    return content


def _one_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())
