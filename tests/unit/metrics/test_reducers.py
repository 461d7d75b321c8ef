"""The attempts of one task -> its value."""

from __future__ import annotations

import pytest

from agentcompass.errors import UsageError
from agentcompass.metrics.per_task.reducers import all_at, pass_at, reducer

OBSERVATIONS = [
    # reducer, observations of k=3, value
    ("avg", [1.0, 0.0, 0.0], 1 / 3),
    ("avg", [1.0, 1.0, None], None),  # never a mean over fewer attempts than it names
    ("pass", [0.0, None, 1.0], 1.0),
    ("pass", [0.0, 0.0, None], None),
    ("pass", [0.0, 0.0, 0.0], 0.0),
    ("all", [1.0, None, 0.0], 0.0),
    ("all", [1.0, 1.0, None], None),
    ("all", [1.0, 1.0, 1.0], 1.0),
]


@pytest.mark.parametrize(("name", "observations", "value"), OBSERVATIONS)
def test_what_is_missing_is_never_guessed(
    name: str, observations: list[float | None], value: float | None
) -> None:
    assert reducer(name).reduce(observations, 3) == value


@pytest.mark.parametrize(
    ("n", "c", "j", "any_pass", "all_pass"),
    [
        (4, 1, 2, 0.5, 0.0),
        (5, 3, 2, 0.9, 0.3),
        (4, 2, 4, 1.0, 0.0),
        (4, 0, 4, 0.0, 0.0),
        (4, 4, 4, 1.0, 1.0),
        (3, 0, 4, None, None),  # the usual shortcut gives 1.0 here
    ],
)
def test_the_two_readings_of_k_attempts_are_told_apart(
    n: int, c: int, j: int, any_pass: float | None, all_pass: float | None
) -> None:
    assert pass_at(n, c, j) == (None if any_pass is None else pytest.approx(any_pass))
    assert all_at(n, c, j) == (None if all_pass is None else pytest.approx(all_pass))


@pytest.mark.parametrize(("n", "c", "j"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_numbers_are_a_bug_of_the_caller(n: int, c: int, j: int) -> None:
    with pytest.raises(ValueError, match="is not 0 <= c <= n"):
        pass_at(n, c, j)


@pytest.mark.parametrize(
    ("name", "k", "draws"),
    [
        ("native", 1, (1,)),
        ("native", 2, ()),
        ("avg", 1, ()),
        ("pass", 4, (4,)),
        ("pass@j", 4, (1, 2, 3)),
        ("pass@j", 60, (*range(1, 11), 20, 50)),  # a large k must not mean k series
        ("pass@3", 4, (3,)),
        ("pass@4", 4, ()),  # that is `pass` itself
    ],
)
def test_draw_sizes_never_reach_beyond_the_plan(name: str, k: int, draws: tuple[int, ...]) -> None:
    assert tuple(reducer(name).draws(k)) == draws


def test_an_estimate_for_fewer_attempts_needs_the_complete_plan() -> None:
    assert reducer("pass@2").reduce([1.0, 0.0, 0.0, None], 2) is None
    assert reducer("pass@2").reduce([1.0, 0.0, 0.0, 0.0], 2) == 0.5
    assert reducer("all@2").reduce([1.0, 1.0, 1.0, 0.0, 0.0], 2) == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["best", "pass@0", "pass@x", "avg@2"])
def test_an_unknown_reducer_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match="known: all, all@j, avg, native, pass, pass@j"):
        reducer(name)
