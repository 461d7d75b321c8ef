"""What a resume may change: how attempts are executed and where, never what is evaluated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from agentcompass.coordinator.asking.requests import expanded, merged
from agentcompass.coordinator.asking.validation import request_of
from agentcompass.coordinator.refusal import Refusal
from agentcompass.models.base import JsonObject
from agentcompass.models.request import Request
from agentcompass.models.run_info import PolicyChange

_CHANGEABLE: Final = ("execution.", "runtime.")
_IDENTITY: Final = ("execution.attempts", "execution.analyzers", "execution.recipes")
_SHOWN: Final = 60


def policy_change(in_force: Request, changes: JsonObject) -> PolicyChange | None:
    """Return what a resume changes; None if that is nothing.

    Args:
        in_force: the frozen request with the policy of the newest leg.
        changes: shaped like a request file, only with what was given.

    Raises:
        Refusal: a field that is frozen would change; it is named with both values.
        UsageError: a field or value is not valid.
    """
    before: JsonObject = json.loads(in_force.model_dump_json())
    wanted = request_of(merged(before, expanded(changes)), where="what resume was given")
    after: JsonObject = json.loads(wanted.model_dump_json())
    for path, old, new in differences(before, after):
        if not path.startswith(_CHANGEABLE) or path.startswith(_IDENTITY):
            raise Refusal(
                "field_frozen",
                f"resume cannot change {path} from {_short(old)} to {_short(new)}",
                where=path,
                hint="start a new run; `run --reuse` takes over what this one has paid for",
            )
    execution = wanted.execution if wanted.execution != in_force.execution else None
    runtime = wanted.runtime if wanted.runtime != in_force.runtime else None
    if execution is None and runtime is None:
        return None
    return PolicyChange(execution=execution, runtime=runtime)


def differences(
    before: JsonValue, after: JsonValue, path: str = ""
) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """Yield (path, before, after) of each field in which two requests differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            inner = f"{path}.{name}" if path else name
            yield from differences(before.get(name), after.get(name), inner)
    elif before != after:
        yield path, before, after


def _short(value: JsonValue) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
