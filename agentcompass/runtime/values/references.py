"""References to secrets in a request or a plan: where one is meant, and what it stands for.

A variable's value is put in place on the worker, when a plug-in is built or a call is made:

* `{"env": NAME}`, anywhere;
* `${NAME}` under the name of a secret or in headers, with text around it (`Bearer ${NAME}`);
* a text that is nothing but `${NAME}`, where NAME is the name of a secret;
* `${NAME}` as the user information or as a secret query value of a URL.

Everything else stays as it is: `${HOME}/x` is ordinary text, and a shell expands its own variables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from agentcompass.models.base import JsonObject
from agentcompass.models.extent import json_value
from agentcompass.models.request import ComponentSpec, SecretRef
from agentcompass.models.secret import SecretValue
from agentcompass.runtime.redact import credentials_replaced, is_secret_name
from agentcompass.runtime.values import live
from agentcompass.runtime.values.masking import missing

REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

ValueOf = Callable[[str], str]
"""Name of a variable -> what is put in place of a reference to it."""


def references(value: JsonValue, *, is_secret: bool = False) -> Iterator[str]:
    """Yield the variables whose values are secrets wherever they turn up.

    These are more than are put in place: a `${MY_API_KEY}` in a shell command names a secret, too.
    """
    if isinstance(value, str):
        yield from (n for n in REFERENCE.findall(value) if is_secret or is_secret_name(n))
        yield from _in_urls(value)
        if "${" in value or '"env"' in value:
            yield from references(inner_json(value))
    elif isinstance(value, list):
        for member in value:
            yield from references(member, is_secret=is_secret)
    elif isinstance(value, dict):
        name = referenced(value)
        if name is not None:
            yield name
        for key, member in value.items():
            yield from references(member, is_secret=is_secret or holds_secrets(key))


def referenced(value: Mapping[str, JsonValue]) -> str | None:
    """Return NAME of `{"env": NAME}`, None for any other object."""
    name = value.get("env")
    is_one = len(value) == 1 and isinstance(name, str) and _NAME.fullmatch(name)
    return str(name) if is_one else None


def holds_secrets(name: str) -> bool:
    """Return True if references below this name are put in place whatever they are called."""
    return is_secret_name(name) or name.lower().endswith(("headers", "base_url"))


def inner_json(text: str) -> JsonValue:
    """Return the object or list that a text spells in JSON, None if it spells none."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return json_value(text)
    except ValueError:
        return None


def in_place(value: JsonValue, value_of: ValueOf, *, is_secret: bool = False) -> JsonValue:
    """Return the value with what its references stand for; the same object if it has none."""
    if isinstance(value, str):
        return _text_in_place(value, value_of, is_secret=is_secret)
    if isinstance(value, list):
        members = [in_place(member, value_of, is_secret=is_secret) for member in value]
        return value if all(a is b for a, b in zip(members, value, strict=True)) else members
    if isinstance(value, dict):
        name = referenced(value)
        if name is not None:
            return value_of(name)
        return _fields_in_place(value, value_of, is_secret=is_secret)
    return value


def _fields_in_place(
    value: dict[str, JsonValue], value_of: ValueOf, *, is_secret: bool = False
) -> dict[str, JsonValue]:
    fields = {
        name: in_place(member, value_of, is_secret=is_secret or holds_secrets(name))
        for name, member in value.items()
    }
    return value if all(fields[name] is value[name] for name in value) else fields


def _text_in_place(text: str, value_of: ValueOf, *, is_secret: bool) -> str:
    if "${" not in text and '"env"' not in text:
        return text
    whole = REFERENCE.fullmatch(text)
    if is_secret or (whole is not None and is_secret_name(whole[1])):
        return _substituted(text, value_of)
    within = inner_json(text)
    if within is not None:
        found = in_place(within, value_of)
        return text if found is within else json.dumps(found)
    return credentials_replaced(text, lambda part: _substituted(part, value_of))


def _substituted(text: str, value_of: ValueOf) -> str:
    return REFERENCE.sub(lambda found: value_of(found[1]), text)


def _in_urls(text: str) -> list[str]:
    found: list[str] = []

    def note(part: str) -> str:
        found.extend(REFERENCE.findall(part))
        return part

    if "${" in text:
        credentials_replaced(text, note)
    return found


def params_on_worker(params: JsonObject, environ: Mapping[str, str]) -> JsonObject:
    """Return the parameters of a component with its secrets in place; raises as `on_worker`."""
    # They themselves are never a reference, even if the only one is called `env`.
    return _fields_in_place(params, lambda name: resolve(SecretRef(env=name), environ).reveal())


def on_worker(spec: ComponentSpec, environ: Mapping[str, str]) -> ComponentSpec:
    """Return a component with its secrets in place.

    Raises:
        AttemptFailure: FATAL setup `secret_missing`.
    """
    params = params_on_worker(spec.params, environ)
    return spec if params is spec.params else spec.model_copy(update={"params": params})


def as_far_as_known(spec: ComponentSpec, environ: Mapping[str, str]) -> ComponentSpec:
    """Do the same where only the workers need to have the secrets: the others stay references."""

    def value_of(name: str) -> str:
        value = environ.get(name)
        if value:
            live.note({name: value})
        return value or f"${{{name}}}"

    params = _fields_in_place(spec.params, value_of)
    return spec if params is spec.params else spec.model_copy(update={"params": params})


def resolve(reference: SecretRef, environ: Mapping[str, str]) -> SecretValue:
    """Return the live secret.

    Raises:
        AttemptFailure: FATAL setup `secret_missing`; only the variable's name is told.
    """
    value = environ.get(reference.env)
    if not value:
        raise missing(reference.env)
    return SecretValue(value, name=reference.env)
