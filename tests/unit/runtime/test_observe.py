from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from agentcompass.models.result import Observation
from agentcompass.runtime.values.observe import observations
from tests.support.stubs import StubBenchmark

CONTRACT = StubBenchmark.contract


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.5, 0.5), (1, 1), (Decimal("0.5"), 0.5), (Fraction(1, 2), 0.5), (10**30, 1e30)],
)
def test_a_number_like_value_is_a_scalar(value: object, expected: Observation) -> None:
    assert observations({"quality": value}, CONTRACT) == ({"quality": expected}, ())


@pytest.mark.parametrize(
    ("metric", "value", "why"),
    [
        ("quality", math.nan, "nan is not a finite number"),
        ("quality", -math.inf, "-inf is not a finite number"),
        ("quality", Decimal("NaN"), "a Decimal is not a number"),
        ("quality", True, "a bool is not a number"),
        ("quality", "0.5", "a str is not a number"),
        ("quality", None, "a NoneType is not a number"),
        ("correct", 1, "a int is not a bool"),
        ("correct", "yes", "a str is not a bool"),
        ("correct", object(), "a object is not a bool"),
        ("other", 1, "the contract declares no such metric"),
    ],
)
def test_what_the_contract_does_not_allow_is_dropped_and_named(
    metric: str, value: object, why: str
) -> None:
    valid, issues = observations({metric: value}, CONTRACT)

    assert valid == {}
    assert [(each.severity, each.phase, each.code, each.message) for each in issues] == [
        ("error", "evaluate", "invalid_observation", f"{metric}: {why}")
    ]


def test_siblings_of_a_bad_observation_stay() -> None:
    valid, issues = observations({"correct": True, "quality": math.nan}, CONTRACT)

    assert (valid, len(issues)) == ({"correct": True}, 1)
