from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.run_info import ControlRecord
from agentcompass.models.task import TaskSpec
from agentcompass.store import records
from tests.builders import T0, a_task

PATH = Path("some/file.json")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b'{"a": NaN}', "not strict JSON"),
        (b'{"a": Infinity}', "not strict JSON"),
        (b'{"a": 1e999}', "not strict JSON"),
        (b'{"a": "\\ud800"}', "not strict JSON"),
        (b'{"a": "\xff"}', "not strict JSON"),
        (b'{"a": 1}{', "not strict JSON"),
        (b'{"a": 1, "a": 2}', "key 'a' occurs twice"),
        (b'{"b": [{"a": 1, "a": 1}]}', "key 'a' occurs twice"),
    ],
)
def test_what_is_not_strict_json_is_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(RecordCorrupt, match=reason) as caught:
        records.strict_json(data, PATH)

    assert caught.value.problems[0][0] == PATH


def test_strict_json_reads_what_json_can_say() -> None:
    assert records.strict_json(b'{"a": [1, 2.5, null, true, "\\u00e9"]}', PATH) == {
        "a": [1, 2.5, None, True, "é"]
    }


def test_nan_is_never_written() -> None:
    assert records.compact({"a": float("nan"), "b": float("inf")}) == b'{"a":null,"b":null}\n'


@pytest.mark.parametrize("value", ["\ud800", 10**30, {1, 2}, object()])
def test_what_json_cannot_say_is_not_written(value: object) -> None:
    with pytest.raises(TypeError):
        records.compact({"a": value})


def test_a_record_reads_back_equal() -> None:
    record = ControlRecord(leg=1, action="pause", at=T0)

    assert records.parse(records.pretty(record), ControlRecord, PATH) == record
    assert records.parse_fast(records.compact(record), ControlRecord, PATH) == record


def test_fields_of_a_later_writer_are_kept() -> None:
    data = records.pretty({**ControlRecord(leg=1, action="pause", at=T0).model_dump(), "more": 1})

    assert records.pretty(records.parse(data, ControlRecord, PATH)) == data


def test_an_unknown_format_is_refused_by_name() -> None:
    data = b'{"schema_version": "agentcompass.control.v9", "leg": 1}'

    with pytest.raises(FormatUnknown, match=r"control\.v9"):
        records.parse(data, ControlRecord, PATH)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "not a JSON object"),
        (b'{"leg": 1}', "has no schema_version"),
        (b'{"schema_version": "agentcompass.control.v1"}', "leg: Field required; action"),
    ],
)
def test_what_is_not_the_record_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(RecordCorrupt, match=reason):
        records.parse(data, ControlRecord, PATH)


def test_an_object_is_asked_for_where_one_is_needed() -> None:
    with pytest.raises(RecordCorrupt, match="not a JSON object"):
        records.json_object(b"1", PATH)


def test_a_record_without_a_format_marker_is_taken_by_its_fields() -> None:
    task = a_task()

    assert records.parse(records.compact(task), TaskSpec, PATH) == task
