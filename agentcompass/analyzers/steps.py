"""What analyzers read of a trajectory; other writers' steps hold anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pydantic import JsonValue

from agentcompass.models.base import JsonObject
from agentcompass.models.extent import json_value
from agentcompass.models.result import AttemptResult
from agentcompass.models.trajectory import Step


def steps_of(attempt: AttemptResult) -> Sequence[Step] | None:
    """Return the steps; None if the attempt has no trajectory, so that nothing was observed."""
    return attempt.trajectory.steps if attempt.trajectory is not None else None


def tool_name(call: JsonObject) -> str:
    """Return the tool that a call names, as model servers write it or plainly; "" if it names none."""
    function = call.get("function")
    holder = function if isinstance(function, dict) else call
    name = holder.get("name")
    return name if isinstance(name, str) else ""


def has_readable_arguments(call: JsonObject) -> bool:
    """Return whether a tool could read its arguments: an object, or text that is the JSON of one."""
    function = call.get("function")
    given = (function if isinstance(function, dict) else call).get("arguments", {})
    if isinstance(given, str):
        try:
            given = json_value(given or "{}")
        except ValueError:
            return False
    return isinstance(given, dict)


def is_blank(value: JsonValue) -> bool:
    """Return whether there is nothing in it: null, white space, or containers of such."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, dict):
        return all(is_blank(each) for each in value.values())
    if isinstance(value, list):
        return all(is_blank(each) for each in value)
    return value is None


def texts(value: JsonValue) -> Iterator[str]:
    """Yield every text in a value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def first_characters(parts: Iterable[str], most: int) -> Iterator[str]:
    """Yield texts until so many characters have been seen; the last one is cut."""
    for part in parts:
        if most <= 0:
            return
        yield part[:most]
        most -= len(part)
