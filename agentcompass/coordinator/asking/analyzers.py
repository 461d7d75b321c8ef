"""Which analyzers are asked for: named one by one, with settings by `--param analyzer.ID.key=value`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import JsonValue

from agentcompass.coordinator.asking.values import json_or_text
from agentcompass.errors import UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.request import ComponentSpec

ANALYZER: Final = "analyzer."
"""With what a parameter of an analyzer begins."""


def analyzers_of(given: Sequence[JsonValue]) -> list[JsonValue]:
    """Return the analyzers spelled out: an id alone means one without settings."""
    return [{"id": each} if isinstance(each, str) else each for each in given]


def with_settings(content: JsonObject, params: Iterable[str]) -> JsonObject:
    """Return the request with these settings in its analyzers.

    Args:
        params: `analyzer.ID.key=value` each; the id may hold dots.

    Raises:
        UsageError: no such analyzer is asked for, or it cannot be read.
    """
    execution = content.get("execution")
    listed = execution.get("analyzers") if isinstance(execution, dict) else None
    found = listed if isinstance(listed, list) else []
    for text in params:
        found = _set(found, text)
    if not isinstance(execution, dict) or not isinstance(listed, list):
        return content
    return {**content, "execution": {**execution, "analyzers": found}}


def asked_analyzers(names: Sequence[str], params: Sequence[str]) -> tuple[ComponentSpec, ...]:
    """Return the analyzers that `report` is to ask, loaded later.

    Raises:
        UsageError: a parameter belongs to none of them.
    """
    other = next((text for text in params if not text.startswith(ANALYZER)), None)
    if other is not None:
        raise UsageError(
            f"report takes no parameter {other.partition('=')[0]!r}",
            where="--param",
            hint="only those of analyzers: analyzer.ID.key=value",
        )
    given: JsonObject = {
        "execution": {"analyzers": [{"id": name} for name in dict.fromkeys(names)]}
    }
    execution = with_settings(given, params)["execution"]
    listed = execution["analyzers"] if isinstance(execution, dict) else None
    return tuple(map(ComponentSpec.model_validate, listed if isinstance(listed, list) else ()))


def _set(analyzers: Sequence[JsonValue], text: str) -> list[JsonValue]:
    path, equals, written = text.removeprefix(ANALYZER).partition("=")
    names = [str(each.get("id")) for each in analyzers if isinstance(each, dict)]
    name = next((name for name in names if path.startswith(f"{name}.")), None)
    if name is None:
        raise UsageError(
            f"no analyzer is asked for that {ANALYZER}{path} could belong to",
            where="--param",
            hint=f"give --analyzer as well; asked for: {', '.join(names) or 'none'}",
        )
    key = path.removeprefix(f"{name}.")
    if not equals or not key:
        raise UsageError(
            f"cannot read the parameter {ANALYZER}{path}",
            where="--param",
            hint="write analyzer.ID.key=value",
        )
    return [_with(each, name, key, json_or_text(written)) for each in analyzers]


def _with(analyzer: JsonValue, name: str, key: str, value: JsonValue) -> JsonValue:
    if not isinstance(analyzer, dict) or analyzer.get("id") != name:
        return analyzer
    params = analyzer.get("params")
    return {**analyzer, "params": {**(params if isinstance(params, dict) else {}), key: value}}
