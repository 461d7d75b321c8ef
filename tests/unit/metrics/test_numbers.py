"""Sums that no order changes."""

from __future__ import annotations

import pytest

from agentcompass.metrics.formula.numbers import mean, weighted_mean

HUGE = 1.7e308


def test_a_mean_is_rounded_once() -> None:
    assert mean([0.1] * 10) == 0.1
    assert mean([1e16, 1.0, -1e16]) == 1 / 3


@pytest.mark.parametrize("values", [[HUGE, HUGE, -HUGE], [HUGE, -HUGE, HUGE], [-HUGE, HUGE, HUGE]])
def test_an_overflow_on_the_way_changes_nothing(values: list[float]) -> None:
    assert mean(values) == HUGE / 3


def test_a_sum_beyond_the_range_of_floats_still_has_a_mean() -> None:
    assert mean([HUGE] * 10) == HUGE


def test_a_weighted_mean_survives_products_that_overflow() -> None:
    assert weighted_mean([(1e9, HUGE), (1e9, HUGE)]) == HUGE
    assert weighted_mean([(0.9, HUGE), (0.9, HUGE)]) == HUGE


def test_without_weight_there_is_no_mean() -> None:
    assert weighted_mean([]) is None
    assert weighted_mean([(0.0, 1.0)]) is None
