"""Strategies: how many of a task's k attempts are needed, and which series they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from agentcompass.errors import UsageError
from agentcompass.metrics.per_task.reducers import declared
from agentcompass.metrics.per_task.registry import Registry
from agentcompass.metrics.per_task.series import SeriesPlan
from agentcompass.models.metric import MetricContract
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome

Attempts: TypeAlias = Sequence[AttemptOutcome | None]
"""The k attempts of one task in order; None = no terminal result."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A registered policy of trying a task k times."""

    id: str
    is_sequential: bool
    """True if attempt n may only start when all lower ones are over."""
    needed: Callable[[MetricContract, Attempts], int]
    """How many of the first attempts count, 0..k. Later ones are not run, or never counted."""
    series: Callable[[MetricContract, int], tuple[SeriesPlan, ...]]
    """The series of a report with k attempts, in order."""


def succeeded(contract: MetricContract, outcome: AttemptOutcome | None) -> bool:
    """Return whether the primary, binary observation of an attempt is a success."""
    return outcome is not None and outcome.metrics.get(contract.primary.metric_id) is True


def _all_of_them(_contract: MetricContract, attempts: Attempts) -> int:
    return len(attempts)


def _until_first_success(contract: MetricContract, attempts: Attempts) -> int:
    numbered = enumerate(attempts, start=1)
    return next((n for n, outcome in numbered if succeeded(contract, outcome)), len(attempts))


def _every_declared(contract: MetricContract, k: int) -> tuple[SeriesPlan, ...]:
    return tuple(
        SeriesPlan(spec, reducer, draw)
        for spec in contract.metrics
        for reducer in declared(spec.metric_id, spec.reducers)
        if spec.kind in reducer.kinds
        for draw in reducer.draws(k)
    )


def _primary_pass(contract: MetricContract, k: int) -> tuple[SeriesPlan, ...]:
    every = _every_declared(contract, k)
    if k == 1:
        return every
    return tuple(plan for plan in every if plan.spec.primary and plan.reducer.id == "pass")


STRATEGIES: Final = Registry[Strategy](
    "strategy",
    "agentcompass.strategies",
    (
        Strategy("avg", is_sequential=False, needed=_all_of_them, series=_every_declared),
        Strategy("pass", is_sequential=True, needed=_until_first_success, series=_primary_pass),
    ),
)


def planned_series(contract: MetricContract, attempts: AttemptPlan) -> tuple[SeriesPlan, ...]:
    """Return the series that a run under this plan reports, the headline first among its metric's.

    Raises:
        UsageError: unknown strategy or reducer, two series of one name, or none for the primary
            metric; to be asked before anything is reserved.
    """
    plans = STRATEGIES.get(attempts.strategy).series(contract, attempts.k)
    names = [plan.series_id for plan in plans]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"the metric contract declares {', '.join(twice)} more than once")
    primary = contract.primary
    if not any(plan.spec.primary for plan in plans):
        raise UsageError(
            f"strategy {attempts.strategy!r} with k={attempts.k} has no series for the primary "
            f"metric {primary.metric_id!r} ({primary.kind}, reducers {', '.join(primary.reducers)})",
            where="execution.attempts",
            hint="choose another --strategy or k",
        )
    return plans
