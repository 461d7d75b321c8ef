"""Values as they are written on a command line."""

from __future__ import annotations

import json

from pydantic import JsonValue


def json_or_text(written: str) -> JsonValue:
    """Return what a value means: JSON if it is some, else itself."""
    try:
        value: JsonValue = json.loads(written, parse_constant=_no_constant)
    except ValueError:
        return written
    return value


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")
