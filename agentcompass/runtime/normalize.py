r"""Turns whatever a plug-in hands over into strict JSON, by a fixed table.

| a value | becomes |
|---|---|
| `None`, `bool`, `int` of 64 bits, finite `float`, `str`, `list`, `dict` | itself |
| NaN, +inf, -inf, and a NaN among the next rows | null |
| numpy scalars and arrays, `Fraction`, other real numbers | number, list of numbers |
| `Decimal`, an `int` beyond 64 bits | nearest float, its digits as text beyond the floats |
| `datetime`, `date`, `time` | ISO 8601 text |
| `timedelta` | seconds |
| `Enum` | its value |
| `Path`, `UUID` | text |
| `bytes` | text, decoded as UTF-8; undecodable bytes as lone surrogates, see below |
| `tuple`, `range`, `deque` | list |
| `set`, `frozenset` | list, in the order of the elements' JSON text |
| other mappings, dataclasses, pydantic models | dict |
| a lone surrogate in text, which UTF-8 cannot hold | the six characters `\udcXX` that name it |

Anything else (functions, iterators, open files, …), two keys that become one, and nesting beyond
`MAX_DEPTH` is a `Problem` with the path of the field, and null stands in its place.
"""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
from collections import deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Final, TypeAlias, cast
from uuid import UUID

from pydantic import BaseModel, JsonValue

from agentcompass.models.extent import MAX_DEPTH
from agentcompass.models.request import MASK
from agentcompass.models.secret import SecretValue

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
_LEAVES: Final = frozenset({str, bool, int, float})
_NOT_CONVERTED: Final = object()

TextRule: TypeAlias = Callable[[str], str]


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A value that has no place in JSON."""

    path: str
    """Such as `telemetry.calls[3].raw`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclasses.dataclass(slots=True)
class Normalizer:
    """One walk over one or more values; `problems` collects what had no place.

    `text` is applied to every string, keys included, after surrogates have been replaced.
    """

    text: TextRule | None = None
    problems: list[Problem] = dataclasses.field(default_factory=list)

    def is_clean(self, value: object) -> bool:
        """Return True if `value` would return this very value; times of models are clean, too."""
        return isinstance(value, datetime) or _is_clean(value, self.text, MAX_DEPTH)

    def value(self, value: object, path: str) -> JsonValue:
        """Return the value as strict JSON; a clean one is returned as it is, not copied."""
        if _is_clean(value, self.text, MAX_DEPTH):
            return cast("JsonValue", value)
        return self._walk(value, path, 0)

    def mapping(self, value: object, path: str) -> dict[str, JsonValue]:
        """Return a mapping as a JSON object; anything else is a problem and gives {}."""
        found = {} if value is None else self.value(value, path)
        if isinstance(found, dict):
            return found
        self._refuse(path, f"expected an object, not {type(value).__name__}")
        return {}

    def string(self, value: str) -> str:
        """Return text that UTF-8 can hold, with the text rule applied."""
        if not value.isascii():
            value = utf8_text(value)
        return self.text(value) if self.text else value

    def _walk(self, value: object, path: str, depth: int) -> JsonValue:
        kind = type(value)
        if value is None or kind in _LEAVES:
            return self._leaf(value)
        if depth >= MAX_DEPTH:
            return self._refuse(path, f"nested deeper than {MAX_DEPTH} levels")
        if kind is list:
            return self._list(cast("list[object]", value), path, depth)
        if kind is dict:
            return self._dict(cast("dict[object, object]", value), path, depth)
        return self._convert(value, path, depth)

    def _leaf(self, value: object) -> JsonValue:
        if type(value) is str:
            return self.string(value)
        if type(value) is int:
            return _integer(value)
        if type(value) is float and not math.isfinite(value):
            return None
        return cast("JsonValue", value)

    def _list(self, values: list[object], path: str, depth: int) -> JsonValue:
        walked = [self._walk(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(values)]
        if all(new is old for new, old in zip(walked, values, strict=True)):
            return cast("JsonValue", values)
        return walked

    def _dict(self, mapping: Mapping[object, object], path: str, depth: int) -> JsonValue:
        walked: dict[str, JsonValue] = {}
        unchanged = True
        for key, value in mapping.items():
            name = self.string(key) if type(key) is str else self._key(key, path)
            if name is None:
                unchanged = False
                continue
            if name in walked:
                self._refuse(f"{path}.{name}", "two keys become the same text")
                unchanged = False
                continue
            walked[name] = new = self._walk(value, f"{path}.{name}", depth + 1)
            unchanged = unchanged and new is value and name is key
        return cast("JsonValue", mapping) if unchanged and type(mapping) is dict else walked

    def _key(self, key: object, path: str) -> str | None:
        plain = self._walk(key, f"{path}.<key>", MAX_DEPTH - 1)
        if isinstance(plain, str):
            return plain
        if plain is None or isinstance(plain, bool | int | float):
            return json.dumps(plain)
        self._refuse(f"{path}.<key>", f"a {type(key).__name__} cannot name a field")
        return None

    def _convert(self, value: object, path: str, depth: int) -> JsonValue:
        try:
            converted = _converted(value)
            if converted is _NOT_CONVERTED:
                return self._refuse(path, f"a {type(value).__name__} cannot be written as JSON")
            if isinstance(value, set | frozenset):
                members = self._walk(converted, path, depth)
                return sorted(cast("list[JsonValue]", members), key=_json_text)
            if isinstance(converted, Mapping) and type(converted) is not dict:
                return self._dict(converted, path, depth)
            return self._walk(converted, path, depth + 1)
        except Exception as error:  # noqa: BLE001 - a foreign object's own methods may raise anything
            return self._refuse(path, f"a {type(value).__name__} raised {type(error).__name__}")

    def _refuse(self, path: str, reason: str) -> JsonValue:
        """Note the problem; the value becomes null."""
        self.problems.append(Problem(path, reason))
        return None


def _is_clean(value: object, text: TextRule | None, levels: int) -> bool:
    """Return True if the walk would return this very value: most are, and this is far cheaper."""
    kind = type(value)
    if kind is str:
        found = cast("str", value)
        written = found if found.isascii() else utf8_text(found)
        return written is found and (text is None or text(found) is found)
    if kind is dict:
        fields = cast("dict[object, object]", value).items()
        return levels > 0 and all(
            type(name) is str and _is_clean(name, text, 0) and _is_clean(member, text, levels - 1)
            for name, member in fields
        )
    if kind is list:
        members = cast("list[object]", value)
        return levels > 0 and all(_is_clean(member, text, levels - 1) for member in members)
    return value is None or kind is bool or _is_plain_number(value)


def _is_plain_number(value: object) -> bool:
    if type(value) is int:
        return _INT_MIN <= value <= _INT_MAX
    return type(value) is float and math.isfinite(value)


def utf8_text(value: str) -> str:
    """Return text that UTF-8 can hold: a lone surrogate becomes the six characters of its name."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _integer(value: int) -> JsonValue:
    if _INT_MIN <= value <= _INT_MAX:
        return value
    try:
        return float(value)
    except OverflowError:
        return str(value) if value.bit_length() < 14_000 else hex(value)  # str() has a digit limit


def _decimal(value: Decimal) -> JsonValue:
    if not value.is_finite():
        return None
    nearest = float(value)
    return nearest if math.isfinite(nearest) else str(value)


def _json_text(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True)


def _dataclass(value: object) -> object:
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return _NOT_CONVERTED
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


_TABLE: Final[tuple[tuple[type | tuple[type, ...], Callable[..., object]], ...]] = (
    (SecretValue, lambda _secret: MASK),
    (Enum, lambda value: value.value),
    (str, str.__str__),
    (bool, bool),
    (int, int),
    (float, float),
    (Decimal, _decimal),
    ((datetime, date, time), lambda value: value.isoformat()),
    (timedelta, timedelta.total_seconds),
    (PurePath, str),
    (UUID, str),
    ((bytes, bytearray, memoryview), lambda value: bytes(value).decode("utf-8", "surrogateescape")),
    ((tuple, set, frozenset, range, deque, list), list),
    (Mapping, lambda value: value),
    (BaseModel, dict),
    (numbers.Integral, int),
    (numbers.Real, float),
)


def _converted(value: object) -> object:
    """Return one step of conversion, or `_NOT_CONVERTED`."""
    if type(value).__module__.partition(".")[0] == "numpy":
        return _from_numpy(value)
    for kinds, convert in _TABLE:
        if isinstance(value, kinds):
            return convert(value)
    return _dataclass(value)


def _from_numpy(value: object) -> object:
    """Convert by duck typing: numpy may not be installed, and must not be imported for this."""
    if isinstance(value, float):
        return float(value)
    to_list = getattr(value, "tolist", None)
    plain = to_list() if callable(to_list) else _NOT_CONVERTED
    # A long double's tolist() is a long double again.
    return float(cast("float", value)) if type(plain) is type(value) else plain
