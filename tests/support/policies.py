"""Policies as a package would bring them: a reducer and a strategy of its own."""

from __future__ import annotations

from agentcompass.metrics.per_task.reducers import Observations, Reducer, declared
from agentcompass.metrics.per_task.series import SeriesPlan
from agentcompass.metrics.per_task.strategies import Attempts, Strategy
from agentcompass.models.metric import MetricContract


def _largest(observations: Observations, draw: int) -> float | None:
    known = [value for value in observations if value is not None]
    return max(known) if len(known) == draw else None


BEST = Reducer(
    "best",
    draws=lambda k: (k,),
    reduce=_largest,
    kinds=frozenset({"scalar", "binary_success"}),
)


def _first_two(_contract: MetricContract, attempts: Attempts) -> int:
    return min(2, len(attempts))


def _every(contract: MetricContract, k: int) -> tuple[SeriesPlan, ...]:
    return tuple(
        SeriesPlan(spec, reducer, draw)
        for spec in contract.metrics
        for reducer in declared(spec.metric_id, spec.reducers)
        for draw in reducer.draws(k)
    )


TWO = Strategy("two", is_sequential=False, needed=_first_two, series=_every)
