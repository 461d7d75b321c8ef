"""The estimators of one task equal what they stand for."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.metrics.formula.hierarchy import escape, unescape
from agentcompass.metrics.formula.numbers import mean
from agentcompass.metrics.per_task.reducers import all_at, pass_at, reducer

verdicts: Final = st.lists(st.booleans(), min_size=1, max_size=8)


@given(verdicts, st.data())
def test_estimators_equal_the_average_over_all_draws(
    attempts: list[bool], data: st.DataObject
) -> None:
    n, c, j = len(attempts), sum(attempts), data.draw(st.integers(1, len(attempts)))
    draws = list(combinations(attempts, j))

    assert pass_at(n, c, j) == pytest.approx(float(Fraction(sum(map(any, draws)), len(draws))))
    assert all_at(n, c, j) == pytest.approx(float(Fraction(sum(map(all, draws)), len(draws))))


@given(verdicts)
def test_an_estimate_for_all_attempts_is_no_estimate(attempts: list[bool]) -> None:
    n, c = len(attempts), sum(attempts)
    observed = [float(each) for each in attempts]

    assert pass_at(n, c, n) == reducer("pass").reduce(observed, n)
    assert all_at(n, c, n) == reducer("all").reduce(observed, n)
    assert pass_at(n, c, 1) == pytest.approx(mean(observed))


@given(st.integers(1, 60), st.data())
def test_more_draws_never_lower_the_chance_of_a_success(n: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))

    by_draw = [pass_at(n, c, j) or 0.0 for j in range(1, n + 1)]

    assert by_draw == sorted(by_draw)
    assert all(0.0 <= value <= 1.0 for value in by_draw)


@given(
    st.lists(st.sampled_from([0.0, 1.0, None]), min_size=2, max_size=6),
    st.sampled_from(["avg", "pass", "all"]),
)
def test_a_missing_attempt_never_changes_a_value_once_it_arrives(
    observations: list[float | None], name: str
) -> None:
    before = reducer(name).reduce(observations, len(observations))
    for filler in (0.0, 1.0):
        complete = [filler if each is None else each for each in observations]

        after = reducer(name).reduce(complete, len(complete))

        assert before is None or before == after


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.randoms())
def test_no_order_changes_a_bit_of_a_mean(values: list[float], random: Random) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)

    assert mean(shuffled) == mean(values)
    assert min(values) <= mean(values) <= max(values) or mean(values) == pytest.approx(values[0])


@given(st.text())
def test_an_escaped_path_segment_is_read_back(name: str) -> None:
    assert unescape(escape(name)) == name
