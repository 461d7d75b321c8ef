"""Tables as Parquet, with the optional package pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from types import ModuleType
from typing import Final

from agentcompass.coordinator.reading.columns import Kind, Value
from agentcompass.coordinator.reading.table import Table
from agentcompass.errors import UsageError

_GROUP: Final = 10_000
"""Rows that are in memory at once."""


def row_groups(table: Table) -> Iterator[bytes]:
    """Return the bytes of a Parquet file, in pieces.

    Raises:
        UsageError: at once, if pyarrow is not installed.
    """
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(
            "Parquet needs the package pyarrow, which is not installed",
            where="--format parquet",
            hint="pip install 'agentcompass-distributed[parquet]', or take csv or jsonl",
        ) from error
    return _written(table, arrow, parquet)


def _written(table: Table, arrow: ModuleType, parquet: ModuleType) -> Iterator[bytes]:
    types = _types(arrow)
    kinds = dict(zip(table.names, table.kinds, strict=True))
    schema = arrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    sink = _Sink()
    with parquet.ParquetWriter(arrow.PythonFile(sink, mode="w"), schema) as writer:
        while group := list(islice(table.rows, _GROUP)):
            writer.write_table(_batch(arrow, schema, group))
            yield sink.taken()
    yield sink.taken()


def _batch(arrow: ModuleType, schema: object, group: list[tuple[Value, ...]]) -> object:
    columns = [list(column) for column in zip(*group, strict=True)]
    batch: object = arrow.table(columns, schema=schema)
    return batch


def _types(arrow: ModuleType) -> dict[Kind, object]:
    return {
        "text": arrow.string(),
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "boolean": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
        "numbers": arrow.list_(arrow.float64()),
        "texts": arrow.list_(arrow.string()),
    }


class _Sink:
    """A file that hands on what was written to it; Parquet never goes back."""

    closed = False

    def __init__(self) -> None:
        self._written = 0
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._waiting.append(bytes(data))
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def taken(self) -> bytes:
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data
