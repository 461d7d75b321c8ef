"""The parameters of plug-ins as their models declare them, for people who are to give them."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from textwrap import dedent
from typing import Final, cast

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from agentcompass.models.base import JsonObject
from agentcompass.runtime.components import Kind, find

_WORDS: Final[Mapping[JsonValue, str]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}
"""What a type of JSON schema is called."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of a plug-in's `Params`."""

    name: str
    type: str
    required: bool
    default: JsonValue
    """Null if it is required."""
    about: str

    @property
    def shown(self) -> str:
        """The default as it would be given, or that there is none."""
        return "required" if self.required else json.dumps(self.default, ensure_ascii=False)


def parameters_of(kind: Kind, name: str) -> list[Parameter]:
    """Return the parameters of a plug-in, in the order of its model.

    Raises:
        UnknownComponent: no plug-in has this id.
        UsageError: it cannot be imported here.
    """
    model = getattr(find(kind, name), "Params", None)
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        return []
    schema = cast("JsonObject", model.model_json_schema())
    texts = {name: text for cls in reversed(model.__mro__) for name, text in _texts(cls)}
    types = cast("Mapping[str, JsonObject]", schema.get("properties", {}))
    return [
        Parameter(
            name=name,
            type=_type(types[name], schema),
            required=field.is_required(),
            default=None if field.is_required() else _default(field),
            about=texts.get(name, ""),
        )
        for name, field in model.model_fields.items()
    ]


def _default(field: FieldInfo) -> JsonValue:
    value: JsonValue = to_jsonable_python(field.get_default(call_default_factory=True))
    return value


def _type(field: JsonObject, schema: JsonObject) -> str:
    """Return in a few words what a value must be."""
    either, values, reference = field.get("anyOf"), field.get("enum"), field.get("$ref")
    if isinstance(reference, str):
        defined = cast("Mapping[str, JsonObject]", schema.get("$defs", {}))
        return _type(defined[reference.rpartition("/")[2]], schema)
    if isinstance(either, list):
        return " or ".join(_type(cast("JsonObject", each), schema) for each in either)
    if isinstance(values, list):
        return " | ".join(map(str, values))
    if field.get("type") == "array":
        items = field.get("items")
        return f"list of {_type(items, schema)}" if isinstance(items, dict) and items else "list"
    return _WORDS.get(field.get("type"), str(field.get("const", "any value")))


def _texts(cls: type) -> Iterator[tuple[str, str]]:
    """Yield the text that stands below each field of a class; none without its source."""
    if not issubclass(cls, BaseModel) or cls is BaseModel:
        return
    try:
        (tree,) = ast.parse(dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError):
        return
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, text in pairwise(body):
        is_field = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if is_field and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            name = cast("ast.Name", cast("ast.AnnAssign", field).target).id
            yield name, " ".join(str(text.value.value).split())
