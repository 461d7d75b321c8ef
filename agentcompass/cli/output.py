"""Results on standard output: text for people, one JSON object per line for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click
from pydantic import BaseModel, JsonValue

from agentcompass.store import records


def emit(fields: Mapping[str, JsonValue]) -> None:
    """Print one JSON object on a line of its own, at once."""
    click.echo(json.dumps(fields, allow_nan=False))


def plain(record: BaseModel | None) -> JsonValue:
    """Return a report or a record as its file has it."""
    content: JsonValue = json.loads(records.compact(record)) if record else None
    return content
