"""Tables as CSV and as JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime

from agentcompass.coordinator.reading.columns import Value
from agentcompass.coordinator.reading.table import Table


def csv_lines(table: Table) -> Iterator[bytes]:
    """Yield CSV (RFC 4180 but for the line feeds) with a header, UTF-8.

    Null is an empty field, truth values are `true` and `false`, lists are JSON, times ISO 8601.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.names)
    for row in table.rows:
        writer.writerow([_field(value) for value in row])
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


def json_lines(table: Table) -> Iterator[bytes]:
    """Yield one JSON object per line, each with every column."""
    for row in table.rows:
        fields = dict(zip(table.names, map(_plain, row), strict=True))
        yield json.dumps(fields, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _field(value: Value) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _plain(value)


def _plain(value: Value) -> object:
    return value.isoformat() if isinstance(value, datetime) else value
