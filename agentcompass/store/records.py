"""Bytes to values and back: strict JSON, whole files, known formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import orjson
from pydantic import BaseModel, JsonValue, ValidationError

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.base import JsonObject

ModelT = TypeVar("ModelT", bound=BaseModel)

_PRETTY: Final = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def compact(value: BaseModel | Mapping[str, object] | Sequence[object]) -> bytes:
    """Return one line of JSON and a line feed, for records that programs read.

    A non-finite number is written as null; there is no way to write NaN.

    Raises:
        TypeError: a lone surrogate, an integer of more than 64 bits or a type that JSON has not;
            whoever publishes an attempt cleans its values first.
    """
    return orjson.dumps(_plain(value), option=orjson.OPT_APPEND_NEWLINE)


def pretty(value: BaseModel | Mapping[str, object] | Sequence[object]) -> bytes:
    """Return indented JSON, for the few files of a run that people open."""
    return orjson.dumps(_plain(value), option=_PRETTY)


def _plain(value: object) -> object:
    return value.model_dump() if isinstance(value, BaseModel) else value


def strict_json(data: bytes, path: Path) -> JsonValue:
    """Parse one JSON document as strictly as it can be done.

    Refuses NaN and infinities, invalid UTF-8, lone surrogates, numbers too large for a double, and
    keys that occur twice.

    Raises:
        RecordCorrupt: with the file and the reason.
    """
    fast_json(data, path)
    try:
        value: JsonValue = json.loads(data, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise corrupt(path, str(error)) from error
    return value


def fast_json(data: bytes, path: Path) -> JsonValue:
    """Parse with all of these rules but the one about duplicate keys, which costs most."""
    try:
        value: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise corrupt(path, _why_not_json(data, error)) from error
    return value


def json_object(data: bytes, path: Path) -> JsonObject:
    """Parse a record by the fast rules; it must be an object."""
    value = fast_json(data, path)
    if not isinstance(value, dict):
        raise corrupt(path, "is not a JSON object")
    return value


def parse(data: bytes, model: type[ModelT], path: Path) -> ModelT:
    """Parse a small record of ours strictly and validate it.

    Raises:
        RecordCorrupt: not strict JSON, or not this record.
        FormatUnknown: its `schema_version` is not the one that `model` has.
    """
    return _validated(data, strict_json(data, path), model, path)


def parse_fast(data: bytes, model: type[ModelT], path: Path) -> ModelT:
    """Do the same for the records of which there are many or which are large."""
    return _validated(data, fast_json(data, path), model, path)


def _validated(data: bytes, value: JsonValue, model: type[ModelT], path: Path) -> ModelT:
    if not isinstance(value, dict):
        raise corrupt(path, "is not a JSON object")
    _check_format(value, model, path)
    try:
        # From bytes, not from `value`: only then may text become times and arrays tuples.
        return model.model_validate_json(data)
    except ValidationError as error:
        raise corrupt(path, brief(error)) from error


def _check_format(value: Mapping[str, JsonValue], model: type[BaseModel], path: Path) -> None:
    field = model.model_fields.get("schema_version")
    if field is None:
        return
    known = str(field.default)
    found = value.get("schema_version")
    if found is None:
        raise corrupt(path, "has no schema_version")
    if found != known:
        raise FormatUnknown(path, str(found), (known,))


def read(path: Path, model: type[ModelT]) -> ModelT:
    """Read and `parse` one small record; FileNotFoundError if it is not there."""
    return parse(path.read_bytes(), model, path)


def brief(error: ValidationError) -> str:
    """Return the first two things that are wrong, in one line."""
    wrong = error.errors(include_url=False, include_input=False)
    shown = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong[:2])
    return shown if len(wrong) <= 2 else f"{shown}; and {len(wrong) - 2} more"


def corrupt(path: str | Path, reason: str) -> RecordCorrupt:
    """Return the error about one malformed file."""
    return RecordCorrupt([(Path(path), reason)])


def _why_not_json(data: bytes, error: orjson.JSONDecodeError) -> str:
    if not data:
        return "is empty"
    return f"is not strict JSON: {error}"


def _without_duplicates(pairs: Iterable[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value: dict[str, JsonValue] = {}
    for key, each in pairs:
        if key in value:
            raise ValueError(f"key {key!r} occurs twice")
        value[key] = each
    return value
