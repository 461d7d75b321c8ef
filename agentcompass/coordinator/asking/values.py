"""Values as they are written on a command line."""

from __future__ import annotations

from pydantic import JsonValue

from agentcompass.errors import UsageError
from agentcompass.models.extent import TooMuch, json_value


def json_or_text(written: str) -> JsonValue:
    """Return what a value means: JSON if it is some, else itself.

    Raises:
        UsageError: it is JSON that nests too deeply, which nobody means as text.
    """
    try:
        return json_value(written, of_constant=_no_constant)
    except TooMuch as error:
        raise UsageError(f"{written[:20]}… cannot be a value: {error}", where="--param") from error
    except ValueError:
        return written


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")
