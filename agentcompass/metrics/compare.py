"""Two or more runs, paired by task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias, TypedDict

from pydantic import Field

from agentcompass.errors import UsageError
from agentcompass.metrics.formula.numbers import mean
from agentcompass.metrics.formula.paired import (
    holm,
    mcnemar_exact,
    paired_mean_interval,
    paired_share_interval,
    sign_flip,
)
from agentcompass.metrics.formula.uncertainty import standard_error
from agentcompass.metrics.per_task.tasks import TaskReducer
from agentcompass.models.base import Frozen
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import TaskOutcomes

PairState: TypeAlias = Literal["win", "loss", "tie", "no value", "only in first", "only in second"]
_NAMED: Final = 5
_SEED: Final = 20_240_601
"""Fixed, so that the same two runs give the same p value."""


class ComparisonRefused(UsageError):
    """The runs are not comparable, or not without saying so."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run in one series."""

    name: str
    benchmark: str
    attempts: AttemptPlan
    series_id: str
    is_indicator: bool
    """Every value is 0 or 1."""
    largest_difference: float | None
    """Between two values; None if they have no bounds."""
    values: dict[str, float | None] = field(repr=False)
    """Task id -> value; None where the series has none."""


class Pair(Frozen):
    """One task in both runs."""

    task_id: str
    first: float | None
    second: float | None
    state: PairState
    """`win` if the second run has the larger value."""


class Comparison(Frozen):
    """The second run against the first."""

    first: str
    second: str
    series_id: str
    paired: int = Field(ge=0)
    """Tasks with a value in both; all numbers below are over these, each with the same weight."""
    first_mean: float | None
    second_mean: float | None
    difference: float | None
    """Second minus first, null without a pair."""
    stderr: float | None
    ci95: tuple[float, float] | None
    interval_method: Literal["bonett_price", "paired_t"]
    p_value: float | None
    """Two-sided."""
    p_holm: float | None
    """Adjusted for the number of runs that are compared with the first; null for a single one."""
    test: str
    wins: int
    losses: int
    ties: int
    changed: tuple[Pair, ...]
    """Wins and losses, the largest difference first."""
    without_value: tuple[str, ...]
    """Tasks of both runs without a value in one of them; not paired."""
    only_in_first: tuple[str, ...]
    only_in_second: tuple[str, ...]


def side_of(
    name: str,
    benchmark: str,
    reducer: TaskReducer,
    outcomes: Iterable[TaskOutcomes],
    series_id: str | None = None,
) -> Side:
    """Return one run's values, in the headline series by default; keeps one float per task.

    Raises:
        ComparisonRefused: the run has no such series.
    """
    wanted = series_id or reducer.headline.series_id
    plan = next((plan for plan in reducer.series if plan.series_id == wanted), None)
    if plan is None:
        known = ", ".join(plan.series_id for plan in reducer.series)
        raise ComparisonRefused(f"run {name} has no series {wanted!r}", hint=f"it has {known}")
    position = reducer.series.index(plan)
    return Side(
        name=name,
        benchmark=benchmark,
        attempts=AttemptPlan(k=reducer.k, strategy=reducer.strategy),
        series_id=wanted,
        is_indicator=plan.scale(reducer.k).is_indicator,
        largest_difference=plan.bounds[1] - plan.bounds[0] if plan.bounds is not None else None,
        values={
            task.task_id: reducer.reduce(reducer.counted(task)).values[position]
            for task in outcomes
        },
    )


def compare(
    first: Side, others: Sequence[Side], *, on_intersection: bool = False
) -> tuple[Comparison, ...]:
    """Return the comparison of each other run with the first.

    Args:
        on_intersection: compare on the tasks that both have, instead of refusing other task sets.

    Raises:
        ComparisonRefused: benchmark, attempt plan, series or task set differ.
    """
    for other in others:
        _require_comparable(first, other, on_intersection=on_intersection)
    found = [_compare(first, other) for other in others]
    p_values = [each.p_value for each in found]
    if len(found) == 1 or None in p_values:
        return tuple(found)
    adjusted = holm([p for p in p_values if p is not None])
    return tuple(
        each.model_copy(update={"p_holm": p}) for each, p in zip(found, adjusted, strict=True)
    )


def pairs(first: Side, second: Side) -> Iterator[Pair]:
    """Yield every task of either run: those of the first in its order, then the others."""
    for task_id, value in first.values.items():
        if task_id not in second.values:
            yield Pair(task_id=task_id, first=value, second=None, state="only in first")
        else:
            yield _pair(task_id, value, second.values[task_id])
    for task_id, value in second.values.items():
        if task_id not in first.values:
            yield Pair(task_id=task_id, first=None, second=value, state="only in second")


def _pair(task_id: str, first: float | None, second: float | None) -> Pair:
    state: PairState = "no value"
    if first is not None and second is not None:
        state = "tie" if first == second else "win" if second > first else "loss"
    return Pair(task_id=task_id, first=first, second=second, state=state)


def _require_comparable(first: Side, other: Side, *, on_intersection: bool) -> None:
    for what, ours, theirs in (
        ("benchmark", first.benchmark, other.benchmark),
        ("attempt plan", _plan(first), _plan(other)),
        ("series", first.series_id, other.series_id),
    ):
        if ours != theirs:
            raise ComparisonRefused(
                f"the {what} differs: {ours} in {first.name}, {theirs} in {other.name}",
                hint="compare runs of the same benchmark, plan and series",
            )
    apart = (_missing(first, other), _missing(other, first))
    if any(apart) and not on_intersection:
        told = "; ".join(
            f"{len(ids)} only in {side.name}: {_some(ids)}"
            for side, ids in zip((first, other), apart, strict=True)
            if ids
        )
        raise ComparisonRefused(
            "the task sets differ", where=told, hint="--intersection compares the common tasks"
        )
    if not set(first.values) & set(other.values):
        raise ComparisonRefused(f"{first.name} and {other.name} have no task in common")


def _plan(side: Side) -> str:
    return f"k={side.attempts.k} {side.attempts.strategy}"


def _missing(side: Side, other: Side) -> list[str]:
    return [task_id for task_id in side.values if task_id not in other.values]


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")


def _compare(first: Side, second: Side) -> Comparison:
    every = list(pairs(first, second))
    before = [p.first for p in every if p.first is not None and p.second is not None]
    after = [p.second for p in every if p.first is not None and p.second is not None]
    differences = [b - a for a, b in zip(before, after, strict=True)]
    changed = [pair for pair in every if pair.state in {"win", "loss"}]
    wins = sum(pair.state == "win" for pair in changed)
    is_indicator = first.is_indicator and second.is_indicator
    return Comparison(
        first=first.name,
        second=second.name,
        series_id=first.series_id,
        paired=len(differences),
        first_mean=mean(before) if before else None,
        second_mean=mean(after) if after else None,
        difference=mean(differences) if differences else None,
        p_holm=None,
        wins=wins,
        losses=len(changed) - wins,
        ties=len(differences) - len(changed),
        changed=tuple(sorted(changed, key=_by_size)),
        without_value=_ids(every, "no value"),
        only_in_first=_ids(every, "only in first"),
        only_in_second=_ids(every, "only in second"),
        **(
            _of_shares(differences)
            if is_indicator
            else _of_means(differences, first.largest_difference)
        ),
    )


class _Estimate(TypedDict):
    stderr: float | None
    ci95: tuple[float, float] | None
    interval_method: Literal["bonett_price", "paired_t"]
    p_value: float | None
    test: str


def _of_shares(differences: Sequence[float]) -> _Estimate:
    n, wins = len(differences), sum(each > 0 for each in differences)
    losses = sum(each < 0 for each in differences)
    return {
        "stderr": standard_error(differences, mean(differences)) if n else None,
        "ci95": paired_share_interval(wins, losses, n) if n else None,
        "interval_method": "bonett_price",
        "p_value": mcnemar_exact(wins, losses) if n else None,
        "test": "mcnemar_exact",
    }


def _of_means(differences: Sequence[float], largest: float | None) -> _Estimate:
    n = len(differences)
    p_value, test = sign_flip(differences, Random(_SEED))  # noqa: S311 - nothing secret in it
    return {
        "stderr": standard_error(differences, mean(differences)) if n else None,
        "ci95": paired_mean_interval(differences, largest) if n else None,
        "interval_method": "paired_t",
        "p_value": p_value if n else None,
        "test": test,
    }


def _ids(every: Sequence[Pair], state: PairState) -> tuple[str, ...]:
    return tuple(pair.task_id for pair in every if pair.state == state)


def _by_size(pair: Pair) -> tuple[float, str]:
    return -abs((pair.second or 0.0) - (pair.first or 0.0)), pair.task_id
