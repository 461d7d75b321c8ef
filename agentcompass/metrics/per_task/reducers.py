"""Reducers: the k attempts of one task -> one value, or none.

Throughout: `n` attempts of a task were observed, `c` of them succeeded, and an estimate is for a
draw of `j` attempts without replacement. A reducer sees the observations of the planned attempts
in order, None where there is none; a binary observation is 1.0 or 0.0. It returns None where its
definition needs what is missing: a value is never estimated from fewer attempts than its name says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Final, TypeAlias

from agentcompass.errors import UsageError
from agentcompass.metrics.formula.numbers import mean
from agentcompass.metrics.per_task.registry import Registry
from agentcompass.models.metric import MetricKind

Observations: TypeAlias = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Reducer:
    """How the attempts of a task become its value."""

    id: str
    """As a contract declares it."""
    draws: Callable[[int], Sequence[int]]
    """Planned k -> the draw sizes that get a series of their own; empty = makes no sense there."""
    reduce: Callable[[Observations, int], float | None]
    """Observations of the k planned attempts, draw size -> the task's value."""
    kinds: frozenset[MetricKind] = frozenset({"binary_success"})
    is_indicator: bool = False
    """True if the value of a task in a binary series is always 0 or 1."""
    keeps_bounds: bool = True
    """False if the value may leave the bounds of the observations, like a sum."""
    name: str = ""
    """What the series is called: `metric.<name>@<draw>`; "" means the id."""

    @property
    def series_name(self) -> str:
        """The reducer that a series names."""
        return self.name or self.id


def pass_at(n: int, c: int, j: int) -> float | None:
    """Return the chance that at least one of j attempts succeeds, or None if n < j.

    The unbiased estimator 1 - C(n-c, j) / C(n, j) of Chen et al. 2021, "Evaluating Large Language
    Models Trained on Code", eq. 1 (arXiv:2107.03374). It is an estimator for *one* task; the value
    of a benchmark is the mean of it over tasks, never the formula applied to sums over tasks. The
    usual shortcut for n - c < j gives 1.0 for n < j too, hence the explicit None.

    Raises:
        ValueError: not 0 <= c <= n, or j < 1.
    """
    _check_bounds(n, c, j)
    return None if n < j else 1.0 - comb(n - c, j) / comb(n, j)


def all_at(n: int, c: int, j: int) -> float | None:
    """Return the chance that all of j attempts succeed (pass^j), or None if n < j.

    The unbiased estimator C(c, j) / C(n, j) of Yao et al. 2024, "tau-bench" (arXiv:2406.12045).

    Raises:
        ValueError: not 0 <= c <= n, or j < 1.
    """
    _check_bounds(n, c, j)
    return None if n < j else comb(c, j) / comb(n, j)


def _check_bounds(n: int, c: int, j: int) -> None:
    if not 0 <= c <= n or j < 1:
        raise ValueError(f"n={n}, c={c}, j={j} is not 0 <= c <= n with j >= 1")


def _average(observations: Observations, draw: int) -> float | None:
    observed = [value for value in observations if value is not None]
    return mean(observed) if len(observed) == draw == len(observations) else None


def _any_success(observations: Observations, draw: int) -> float | None:
    if any(observations):
        return 1.0
    complete = len(observations) == draw and None not in observations
    return 0.0 if complete else None


def _no_failure(observations: Observations, draw: int) -> float | None:
    if any(value == 0.0 for value in observations):
        return 0.0
    complete = len(observations) == draw and None not in observations
    return 1.0 if complete else None


def _estimate(
    estimator: Callable[[int, int, int], float | None],
) -> Callable[[Observations, int], float | None]:
    def reduce(observations: Observations, draw: int) -> float | None:
        if None in observations:
            return None
        return estimator(len(observations), sum(1 for value in observations if value), draw)

    return reduce


def _only_one(k: int) -> tuple[int, ...]:
    return (1,) if k == 1 else ()


def _full(k: int) -> tuple[int, ...]:
    return (k,) if k > 1 else ()


def _below(k: int) -> tuple[int, ...]:
    """Every size below k up to 10, then 20, 50, 100, …: a large k must not mean k series."""
    steps = (m * 10**e for e in range(1, 5) for m in (2, 5, 10))
    return tuple(j for j in (*range(1, 11), *steps) if j < k)


def _exactly(j: int) -> Callable[[int], tuple[int, ...]]:
    return lambda k: (j,) if 1 <= j < k else ()


_ANY_KIND: Final[frozenset[MetricKind]] = frozenset({"binary_success", "scalar"})
_ESTIMATORS: Final = {"pass": pass_at, "all": all_at}

REDUCERS: Final = Registry[Reducer](
    "reducer",
    "agentcompass.reducers",
    (
        Reducer("native", _only_one, _average, _ANY_KIND, is_indicator=True),
        Reducer("avg", _full, _average, _ANY_KIND),
        Reducer("pass", _full, _any_success, is_indicator=True),
        Reducer("all", _full, _no_failure, is_indicator=True),
        Reducer("pass@j", _below, _estimate(pass_at), name="pass"),
        Reducer("all@j", _below, _estimate(all_at), name="all"),
    ),
)


def reducer(reducer_id: str) -> Reducer:
    """Return the reducer that a contract declares; `pass@5` and `all@5` name one draw size.

    Raises:
        UsageError: nobody has it; the known ids are listed.
    """
    sized = re.fullmatch(r"(pass|all)@([1-9]\d{0,4})", reducer_id)
    if sized is None:
        return REDUCERS.get(reducer_id)
    name, size = sized[1], int(sized[2])
    return Reducer(reducer_id, _exactly(size), _estimate(_ESTIMATORS[name]), name=name)


def declared(metric_id: str, reducer_ids: Sequence[str]) -> tuple[Reducer, ...]:
    """Return the reducers of one metric; an unknown one names the metric that declares it."""
    try:
        return tuple(reducer(reducer_id) for reducer_id in reducer_ids)
    except UsageError as error:
        raise UsageError(
            error.what, where=f"metric {metric_id!r} of the contract", hint=error.hint
        ) from error
