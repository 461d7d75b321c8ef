"""From JSON values to a `Request`; what is wrong with them, in the words of whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agentcompass.errors import UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.request import MASK, Request
from agentcompass.runtime.redact import is_secret_name, mask_urls

FLAGS: Final[Mapping[str, str]] = {
    "benchmark": "--benchmark",
    "benchmark.id": "--benchmark",
    "harness.id": "--harness",
    "environment.id": "--environment",
    "model.id": "--model",
    "model.base_url": "--base-url",
    "model.api_key.env": "--api-key-env",
    "execution.attempts.k": "-k",
    "execution.attempts.strategy": "--strategy",
    "execution.run_timeout_s": "--timeout",
    "execution.evaluate_timeout_s": "--evaluate-timeout",
    "execution.timeout_multiplier": "--timeout-multiplier",
    "execution.max_retries": "--max-retries",
    "execution.analyzers": "--analyzer",
    "execution.recipes": "--recipe",
    "execution.error_policy.max_errors": "--max-errors",
    "execution.error_policy.max_error_share": "--max-error-share",
    "execution.budget.cost_usd": "--budget-usd",
    "execution.budget.tokens": "--budget-tokens",
    "execution.budget.wall_time_s": "--budget-s",
    "execution.task_concurrency": "--task-concurrency",
    "execution.limits.model.concurrent_calls": "--concurrent-calls",
    "execution.limits.model.requests_per_minute": "--requests-per-minute",
    "execution.limits.model.tokens_per_minute": "--tokens-per-minute",
    "execution.limits.concurrent_environments": "--concurrent-environments",
    "selection.limit": "--limit",
    "selection.task_ids": "--task-id",
    "output.run_name": "--run-name",
    "output.run_id": "--run-id",
    "runtime.workers": "--workers",
    "runtime.pool": "--pool",
    "runtime.queue": "--queue",
}
"""Field of a request -> the flag that sets it."""
_UNION_MEMBERS: Final = frozenset({"SecretRef", "str", f"literal['{MASK}']"})
_SHOWN: Final = 2
_ECHO_LIMIT: Final = 60


def request_of(content: JsonObject, *, where: str, named: Callable[[str], str] = str) -> Request:
    """Return the request that `content` spells.

    Args:
        where: the file and the command line, for the message.
        named: returns how the user knows a field of the request, where that is more than its path.

    Raises:
        UsageError: naming each field, what it must be, and what stands there instead.
    """
    try:
        return Request.model_validate_json(json.dumps(content))
    except ValidationError as error:
        found = error.errors(include_url=False)
        by_field = {_field(details): details for details in reversed(found)}
        problems = {
            named(field): _problem(named(field), details)
            for field, details in reversed(by_field.items())
        }
        shown = list(problems.values())[:_SHOWN]
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown)} more")
        fields = ", ".join(list(problems)[:_SHOWN])
        raise UsageError(
            "\n".join(shown), where=f"{fields} ({where})", hint=_hint(found[0])
        ) from None


def _problem(field: str, details: ErrorDetails) -> str:
    match details["type"]:
        case "missing":
            return f"{field} is missing"
        case "extra_forbidden":
            return f"unknown field {field}"
        case "value_error":
            return f"{field}: {details['msg'].removeprefix('Value error, ')}"
        case _:
            message = (
                details["msg"].replace("Input should", "must").replace("String should", "must")
            )
            return f"{field} {message[:1].lower()}{message[1:]}{_instead(field, details)}"


def _instead(field: str, details: ErrorDetails) -> str:
    value: object = details["input"]
    if is_secret_name(field) or isinstance(value, dict | list):
        return ""
    text = json.dumps(value)
    return f", not {mask_urls(text)}" if len(text) <= _ECHO_LIMIT else ""


def _hint(details: ErrorDetails) -> str:
    field = _field(details)
    if details["type"] == "extra_forbidden":
        parent, _, name = field.rpartition(".")
        known = sorted(_fields_at(parent))
        near = get_close_matches(name, known, n=1, cutoff=0.6)
        guess = f"did you mean {near[0]!r}? " if near else ""
        return f"{guess}known here: {', '.join(known)}" if known else ""
    flag = FLAGS.get(field)
    return f"correct {flag}, or {field} in the file" if flag else ""


def _field(details: ErrorDetails) -> str:
    """Return the path of the field, without the members of unions that pydantic tells apart."""
    path = ""
    for part in details["loc"]:
        if part in _UNION_MEMBERS:
            continue
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.lstrip(".") or "request"


def _fields_at(path: str) -> Iterator[str]:
    """Yield the field names of the model at `path`; nothing where there is no model."""
    model: type[BaseModel] | None = Request
    for name in path.split(".") if path else []:
        field = model.model_fields.get(name.partition("[")[0]) if model else None
        model = _model_of(field.annotation) if field else None
    yield from model.model_fields if model else ()


def _model_of(annotation: object) -> type[BaseModel] | None:
    members = getattr(annotation, "__args__", ())
    for candidate in (annotation, *members):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
