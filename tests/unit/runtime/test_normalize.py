from __future__ import annotations

import json
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import Path, PurePosixPath
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.models.extent import MAX_DEPTH
from agentcompass.models.issue import Issue
from agentcompass.models.secret import SecretValue
from agentcompass.runtime.normalize import Normalizer, utf8_text


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Text(str):
    """Text of another type."""


@dataclass
class Point:
    x: int
    y: object


def clean(value: object) -> object:
    normalizer = Normalizer()
    found = normalizer.value(value, "value")
    assert normalizer.problems == []
    return found


def problems(value: object) -> list[str]:
    normalizer = Normalizer()
    normalizer.value(value, "value")
    return [str(problem) for problem in normalizer.problems]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("0.5"), 0.5),
        (Decimal("NaN"), None),
        (Decimal("1e999"), "1E+999"),
        (Fraction(1, 4), 0.25),
        (10**30, 1e30),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (10**400, "1" + "0" * 400),
        (float("nan"), None),
        (float("-inf"), None),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(minutes=1), 60.0),
        (Path("/a/b"), "/a/b"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        (Text("x"), "x"),
        (b"caf\xc3\xa9", "café"),
        (b"\xff!", "\\udcff!"),
        ((1, 2), [1, 2]),
        (range(2), [0, 1]),
        (deque([1]), [1]),
        ({2, 1}, [1, 2]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (Point(1, {Decimal(2)}), {"x": 1, "y": [2.0]}),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        (SecretValue("hidden-value", name="KEY"), "********"),
    ],
)
def test_a_type_is_converted_by_the_table(value: object, expected: object) -> None:
    assert clean(value) == expected


def test_a_model_becomes_its_fields() -> None:
    issue = Issue(severity="warning", phase="run", code="c", message="m")

    assert clean(issue) == {"severity": "warning", "phase": "run", "code": "c", "message": "m"}


class FakeScalar:
    """As numpy's scalars look without numpy."""

    def tolist(self) -> object:
        return 7


class FakeLongDouble(FakeScalar):
    def tolist(self) -> object:
        return self

    def __float__(self) -> float:
        return 2.5


class FakeArray(FakeScalar):
    def tolist(self) -> object:
        return [[1, float("nan")]]


@pytest.mark.parametrize(
    ("kind", "expected"), [(FakeScalar, 7), (FakeLongDouble, 2.5), (FakeArray, [[1, None]])]
)
def test_numpy_is_converted_without_importing_it(
    kind: type, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "__module__", "numpy")

    assert clean(kind()) == expected


def test_a_clean_value_is_returned_and_not_copied() -> None:
    value = {"a": [1, "é", None, {"b": 0.5}], "c": True}

    assert Normalizer().value(value, "v") is value


def test_a_lone_surrogate_becomes_the_text_that_names_it() -> None:
    assert clean({"k\ud800": ["a\udc00b\0\u2028\ufeff"]}) == {
        "k\\ud800": ["a\\udc00b\0\u2028\ufeff"]
    }


def test_what_has_no_place_in_json_is_named_with_its_path_and_becomes_null() -> None:
    normalizer = Normalizer()

    found = normalizer.value({"a": [0, {"fn": len}], "kept": 1}, "extra")

    assert found == {"a": [0, {"fn": None}], "kept": 1}
    assert [each.path for each in normalizer.problems] == ["extra.a[1].fn"]


def test_two_keys_that_become_one_are_a_problem() -> None:
    assert problems({1: "a", "1": "b"}) == ["value.1: two keys become the same text"]


def test_an_object_that_raises_is_a_problem_and_not_an_error() -> None:
    class Bad(PurePosixPath):
        def __str__(self) -> str:
            raise RuntimeError

    assert problems([Bad("x")]) == ["value[0]: a Bad raised RuntimeError"]


def test_nesting_is_bounded_and_a_circle_ends() -> None:
    circle: list[object] = []
    circle.append(circle)

    assert problems(circle)[0].endswith(f"nested deeper than {MAX_DEPTH} levels")


def test_a_text_rule_sees_keys_and_values_after_surrogates_are_gone() -> None:
    normalizer = Normalizer(text=str.upper)

    assert normalizer.value({"a": "b\udc00"}, "v") == {"A": "B\\UDC00"}


def test_something_else_than_a_mapping_gives_an_empty_object_and_a_problem() -> None:
    normalizer = Normalizer()

    assert normalizer.mapping([1], "telemetry") == {}
    assert str(normalizer.problems[0]) == "telemetry: expected an object, not list"


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(alphabet=st.characters())
    | st.text(alphabet=st.characters(categories=["Cs"]))
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.sets(st.integers()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=20,
)


@given(anything)
def test_whatever_comes_in_strict_json_comes_out_and_stays_as_it_is(value: object) -> None:
    found = Normalizer().value(value, "value")

    written = orjson.dumps(found)
    assert json.loads(written.decode("utf-8"), parse_constant=pytest.fail) == found
    assert Normalizer().value(found, "value") is found


@given(st.text(alphabet=st.characters() | st.characters(categories=["Cs"])))
def test_text_is_always_valid_utf8_and_valid_text_stays(value: str) -> None:
    found = utf8_text(value)

    assert utf8_text(found) is found
    found.encode("utf-8")
