"""How a request differs from that of the source. Pure; secrets are masked before they are compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from agentcompass.models.base import JsonObject
from agentcompass.models.request import MASK, Request
from agentcompass.runtime.redact import redact

_COMPARED: Final = (
    "benchmark",
    "harness",
    "environment",
    "evaluation_environment",
    "model",
    "execution",
    "selection",
)
"""What is evaluated and how. Where attempts run, and under which name, changes no result."""
_SHARED: Final[Mapping[str, tuple[str, ...]]] = {
    "benchmark": ("id", "params"),
    "harness": ("id", "params"),
    "environment": ("id", "params"),
    "model": ("id", "base_url", "api_protocol", "params"),
}
"""What a request of another writer says in the same words."""
_SHOWN: Final = 60


def differences(
    source: Mapping[str, JsonValue], request: Request, *, is_ours: bool
) -> list[JsonObject]:
    """Return `{field, source, now}` of each field in which two requests differ, ids first.

    Args:
        is_ours: the source's request is one of ours; of another writer's only what both say counts.
    """
    now: JsonObject = json.loads(request.model_dump_json())
    names = _COMPARED if is_ours else tuple(_SHARED)
    pairs = ((name, *_parts(name, source, now, is_ours=is_ours)) for name in names)
    found = [
        {"field": path, "source": old, "now": new}
        for name, one, other in pairs
        for path, old, new in _differences(redact(one), redact(other), name)
        if not _is_masked(old, new)
    ]
    return sorted(found, key=lambda each: not str(each["field"]).endswith(".id"))


def said(difference: Mapping[str, JsonValue]) -> str:
    """Return one difference in a line."""
    if "changed" in difference:
        changed = difference["changed"]
        names = [str(name) for name in changed] if isinstance(changed, list) else []
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        return f"tasks whose content changed: {', '.join(names[:20])}{more}"
    old, new = _short(difference.get("source")), _short(difference.get("now"))
    return f"{difference['field']} was {old}, is {new}"


def _parts(
    name: str, source: Mapping[str, JsonValue], now: Mapping[str, JsonValue], *, is_ours: bool
) -> tuple[JsonValue, JsonValue]:
    one, other = source.get(name), now.get(name)
    if is_ours:
        return one, other
    if not isinstance(one, dict) or not isinstance(other, dict):
        return None, None
    shared = [field for field in _SHARED[name] if field in one]
    return {field: one[field] for field in shared}, {field: other.get(field) for field in shared}


def _differences(
    one: JsonValue, other: JsonValue, path: str
) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            yield from _differences(one.get(name), other.get(name), f"{path}.{name}")
    elif one != other:
        yield path, one, other


def _is_masked(old: JsonValue, new: JsonValue) -> bool:
    """Return whether a secret hides what is compared: then nobody can tell whether it differs."""
    return MASK in (old, new)


def _short(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
