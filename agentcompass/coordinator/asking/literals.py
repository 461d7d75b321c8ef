"""Literal secrets of a request: found by name, taken out, and a reference left in their place.

After this no secret value is in the request: what is frozen, sent and printed are the names of
environment variables. The values go nowhere but into the environment of local workers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from agentcompass.errors import UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.request import MASK, Request
from agentcompass.runtime.redact import (
    credentials_replaced,
    is_reference_or_has_one_as_password,
    is_secret_name,
    mask_urls,
)
from agentcompass.runtime.values.live import note
from agentcompass.runtime.values.references import (
    REFERENCE,
    holds_secrets,
    inner_json,
    referenced,
)

_LONG_NUMBER: Final = 6
"""Digits. A shorter one under a secret's name is more likely a setting."""
_LIKE_A_VALUE: Final = re.compile(r"(?=[A-Za-z]*[0-9]|[A-Z]+[a-z]|[a-z]+[A-Z])[A-Za-z0-9]{16}")
"""As `hf_…` and other keys have it: they are well-formed names of variables, too."""


@dataclass(frozen=True, slots=True)
class Separated:
    """A request without literal secrets, and the secrets that were in it."""

    content: JsonObject
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variable that the reference names -> value."""
    places: Sequence[tuple[str, str]] = ()
    """(field path, environment variable) of each literal, in the order found."""
    referenced: Sequence[str] = ()
    """Every variable that a secret is read from, those of the literals included."""


class _Separator:
    def __init__(self, taken: Mapping[str, str]) -> None:
        self.values = dict(taken)
        self.places: list[tuple[str, str]] = []
        self.referenced: dict[str, None] = {}

    def walk(self, value: JsonValue, path: str, *, is_secret: bool = False) -> JsonValue:
        if isinstance(value, dict):
            if _is_reference(value, path):
                self.referenced[str(value["env"])] = None
                return value
            if is_secret and set(value) == {"env"}:
                raise UsageError(
                    f"{path}.env must be the name of an environment variable, which holds the secret",
                    hint="a name has letters, digits and _"
                    + (" (--api-key-env)" if path == "model.api_key" else ""),
                )
            return self._fields(value, path, is_secret=is_secret)
        if isinstance(value, list):
            return [
                self.walk(member, f"{path}[{at}]", is_secret=is_secret)
                for at, member in enumerate(value)
            ]
        if isinstance(value, str) and value:
            return self._text(value, path, is_secret=is_secret)
        if is_secret and type(value) in {int, float} and len(str(value)) >= _LONG_NUMBER:
            raise UsageError(
                f"{path} is a secret written as a number", hint="put it in quotes, as text"
            )
        return value

    def _fields(self, value: JsonObject, path: str, *, is_secret: bool = False) -> JsonObject:
        return {
            name: self.walk(member, f"{path}.{name}", is_secret=is_secret or is_secret_name(name))
            for name, member in value.items()
        }

    def _text(self, value: str, path: str, *, is_secret: bool) -> JsonValue:
        if MASK in value and is_secret:
            raise UsageError(
                f"{path} is the mask of a secret, not a secret",
                hint=f"name the environment variable that holds it: {path}: ${{NAME}}",
            )
        found = REFERENCE.findall(value)
        if found and (is_secret or _takes_references(path)):
            self.referenced.update(dict.fromkeys(found))
            return _as_reference(value, path)
        if is_secret:
            return _as_reference(f"${{{self._variable(path, value)}}}", path)
        within = inner_json(value)
        if within is not None:
            return self._json(value, within, path)
        return credentials_replaced(value, lambda part: self._credential(part, path))

    def _json(self, value: str, within: JsonValue, path: str) -> str:
        """Return JSON in a text without its literal secrets; it is written anew only if it has some."""
        walked = self.walk(within, path)
        return value if walked == within else json.dumps(walked)

    def _credential(self, part: str, path: str) -> str:
        """Return what stands for the user information or a secret query value of a URL."""
        if is_reference_or_has_one_as_password(part):
            self.referenced.update(dict.fromkeys(REFERENCE.findall(part)))
            return part
        if MASK in part:
            raise UsageError(
                f"{path} holds the mask of a credential, not a credential",
                hint="name the environment variable that holds it: https://${NAME}@host",
            )
        return f"${{{self._variable(path, part)}}}"

    def _variable(self, path: str, value: str) -> str:
        base = "AGENTCOMPASS_" + re.sub(r"[^A-Z0-9]+", "_", path.upper()).strip("_")
        name, number = base, 1
        while self.values.get(name, value) != value:
            number += 1
            name = f"{base}_{number}"
        self.values[name] = value
        note({name: value})
        self.places.append((path, name))
        self.referenced[name] = None
        return name


def separate_literals(content: JsonObject, taken: Mapping[str, str] | None = None) -> Separated:
    """Replace each literal secret of a request by a reference.

    A secret is a text under a secret name (contracts §10), at any depth. Text that already holds a
    `${NAME}` is a reference. Free `metadata` reaches no worker: there the mask is enough.

    Args:
        taken: variables of other requests for the same workers; they are among the values returned.

    Raises:
        UsageError: a mask stands where a secret belongs.
    """
    separator = _Separator(taken or {})
    walked: JsonObject = {}
    for name, value in content.items():
        walked[name] = _masked(value) if name == "metadata" else separator.walk(value, name)
    return Separated(walked, separator.values, tuple(separator.places), tuple(separator.referenced))


def referenced_by(request: Request) -> Sequence[str]:
    """Return the variables that a frozen request reads secrets from."""
    content: JsonObject = json.loads(request.model_dump_json())
    return separate_literals(content).referenced


def refuse_literals(separated: Separated, where: str) -> None:
    """Refuse literal secrets where they would have to travel: with a broker of one's own."""
    if separated.places:
        path, variable = separated.places[0]
        more = f" (and {len(separated.places) - 1} more)" if len(separated.places) > 1 else ""
        is_key = path == "model.api_key"
        as_named = f"--api-key-env {variable}" if is_key else f"{path}: …${{{variable}}}…"
        raise UsageError(
            f"{path}{more} is a literal secret, which must not travel through a broker",
            where=where,
            hint=f"export {variable}=… where the workers start\n      and name it here: {as_named}",
        )


def refuse_values_as_names(referenced: Iterable[str], known: Mapping[str, str], where: str) -> None:
    """Refuse what is the secret itself, not its name: a name is frozen, sent and shown."""
    if any(name not in known and _LIKE_A_VALUE.search(name) for name in referenced):
        raise UsageError(
            "what looks like a secret stands where the name of its variable belongs",
            where=where,
            hint="put the secret into a variable and give that name: --api-key-env OPENAI_API_KEY",
        )


def refuse_missing(referenced: Iterable[str], environ: Mapping[str, str]) -> None:
    """Refuse to start what would fail on every local worker for want of a secret."""
    missing = [name for name in referenced if not environ.get(name)]
    if missing:
        names = ", ".join(missing[:5]) + (" and more" if len(missing) > 5 else "")
        raise UsageError(
            f"environment variable{'s' if len(missing) > 1 else ''} not set: {names}",
            hint=f"export {missing[0]}=… here: local workers read secrets from this environment",
        )


def _is_reference(value: Mapping[str, JsonValue], path: str) -> bool:
    """Tell `{"env": NAME}` from the parameters of a component whose only parameter is `env`."""
    return referenced(value) is not None and not path.endswith(".params")


def _takes_references(path: str) -> bool:
    return any(holds_secrets(name) for name in re.split(r"[.\[]", path))


def _as_reference(text: str, path: str) -> JsonValue:
    """Return text as it is, or as an object where the field wants one: the model's key."""
    found = REFERENCE.fullmatch(text)
    if path != "model.api_key":
        return text
    if found is None:
        raise UsageError(f"{path} must be one reference such as ${{NAME}}, with nothing around it")
    return {"env": found[1]}


def _masked(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {
            name: MASK if is_secret_name(name) and isinstance(member, str) else _masked(member)
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [_masked(member) for member in value]
    return mask_urls(value) if isinstance(value, str) else value
