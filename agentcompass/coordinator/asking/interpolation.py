"""`${NAME}` in fields that hold no secret and no text of a plug-in: looked up when the file is read.

Elsewhere a `${NAME}` stays what it is. Under a secret's name it is the reference that a worker
resolves, and in a component's parameters it may be part of a prompt or of a shell command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from agentcompass.errors import UsageError
from agentcompass.models.base import JsonObject
from agentcompass.runtime.redact import is_secret_name

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FIELDS: Final = (
    ("model", "id"),
    ("model", "base_url"),
    ("output", "run_name"),
    ("output", "run_id"),
)


def interpolated(content: JsonObject, environ: Mapping[str, str]) -> JsonObject:
    """Return a request with those fields filled in.

    Raises:
        UsageError: a variable is not set, or its name is that of a secret: the value would be
            written to disk.
    """
    result = dict(content)
    for part, name in _FIELDS:
        fields = result.get(part)
        if isinstance(fields, dict) and isinstance(fields.get(name), str):
            result[part] = {**fields, name: _filled(fields[name], f"{part}.{name}", environ)}
    return result


def _filled(value: JsonValue, path: str, environ: Mapping[str, str]) -> str:
    def found(match: re.Match[str]) -> str:
        variable = match[1]
        if is_secret_name(variable):
            raise UsageError(
                f"{path} refers to {variable}, which is the name of a secret",
                where=path,
                hint="secrets belong into model.api_key or model.headers",
            )
        if variable not in environ:
            raise UsageError(f"environment variable not set: {variable}", where=path)
        return environ[variable]

    return _REFERENCE.sub(found, str(value))
