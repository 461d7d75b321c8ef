"""How deep and how large a value from outside may be.

All that walks a value recurses, and Python's own parsers stop at a depth that differs from version
to version. So whoever takes text from outside takes it through here and gets a ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:  # the command line reads this module before it may afford pydantic
    from pydantic import JsonValue

MAX_DEPTH: Final = 100
"""Levels of nesting of one value; parsers of other languages stop soon after."""
MAX_SIZE: Final = 10_000_000
"""Values and characters of one request, with every alias of YAML written out."""

Pairs: TypeAlias = "list[tuple[str, JsonValue]]"


class TooMuch(ValueError):
    """A value is too deep or too large to be taken."""


def json_value(
    text: str | bytes,
    *,
    of_pairs: Callable[[Pairs], dict[str, JsonValue]] | None = None,
    of_constant: Callable[[str], JsonValue] | None = None,
) -> JsonValue:
    """Return what JSON text says, to at most `MAX_DEPTH`.

    Args:
        text: the whole document.
        of_pairs: makes an object of its fields.
        of_constant: makes a value of `NaN`, `Infinity` and `-Infinity`.

    Raises:
        TooMuch: it is nested too deeply.
        ValueError: it is not JSON.
    """
    try:
        value: JsonValue = json.loads(text, object_pairs_hook=of_pairs, parse_constant=of_constant)
    except RecursionError as error:
        raise TooMuch(_TOO_DEEP) from error
    refuse_excess(value, max_size=inf)
    return value


def refuse_excess(value: object, max_size: float = MAX_SIZE) -> None:
    """TooMuch if a value is nested too deeply, or without end, or holds more than `max_size`.

    An alias of YAML is one object in many places: a few lines may stand for gigabytes.
    """
    level, size = [value], 0
    for _ in range(MAX_DEPTH + 1):
        inner: list[object] = []
        for each in level:
            members = _members(each)
            size += len(members) + (len(each) if isinstance(each, str) else 0)
            if size > max_size:
                raise TooMuch(f"it holds more than {max_size:,} values and characters")
            inner.extend(members)
        level = inner
        if not level:
            return
    raise TooMuch(_TOO_DEEP)


_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"


def _members(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
