"""When a run has spent or failed enough to be paused. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from agentcompass.models.request import ExecutionSettings
from agentcompass.models.run_info import ControlRecord

_OPENING: Final = frozenset({"resume", "rerun", "quarantine"})
_CLOSING: Final = frozenset({"pause", "cancel", "interrupt"})
_NO_TIME: Final = timedelta()


@dataclass(frozen=True, slots=True)
class Spent:
    """What this run's own executions cost, as far as that is known, and how they ended."""

    cost_usd: float = 0.0
    tokens: int = 0
    cost_unknown: int = 0
    """Attempts of whose executions one at least does not say what it cost; in no sum."""
    tokens_unknown: int = 0
    wall_time_s: float = 0.0
    over: int = 0
    """Attempts with a result that this run has paid for."""
    errors: int = 0
    """Those of them with an ERROR or FATAL issue."""


def is_bounded(settings: ExecutionSettings) -> bool:
    """Return whether the results have to be read to see if it is enough."""
    return settings.budget.is_set or settings.error_policy.is_set


def why_stop(spent: Spent, settings: ExecutionSettings) -> str:
    """Return which bound is reached, in words for people; "" if none is."""
    return _over_budget(spent, settings) or _too_many_errors(spent, settings)


def _over_budget(spent: Spent, settings: ExecutionSettings) -> str:
    budget = settings.budget
    if budget.cost_usd is not None and spent.cost_usd >= budget.cost_usd:
        known = f"budget reached: {spent.cost_usd:.4g} of {budget.cost_usd:g} USD are spent"
        return known + _besides(spent.cost_unknown)
    if budget.tokens is not None and spent.tokens >= budget.tokens:
        known = f"budget reached: {spent.tokens} of {budget.tokens} tokens are spent"
        return known + _besides(spent.tokens_unknown)
    if budget.wall_time_s is not None and spent.wall_time_s >= budget.wall_time_s:
        return f"budget reached: {spent.wall_time_s:.0f} of {budget.wall_time_s:g} s have passed"
    return ""


def _besides(unknown: int) -> str:
    return f", and what {unknown} attempts used is not known" if unknown else ""


def _too_many_errors(spent: Spent, settings: ExecutionSettings) -> str:
    policy = settings.error_policy
    if policy.max_errors is not None and spent.errors >= policy.max_errors:
        return f"{spent.errors} attempts failed, max_errors is {policy.max_errors}"
    share = policy.max_error_share
    if share is None or spent.over < policy.min_attempts or spent.errors < share * spent.over:
        return ""
    return f"{spent.errors} of {spent.over} attempts failed, max_error_share is {share:g}"


def wall_time_s(
    sealed_at: datetime,
    records: Iterable[ControlRecord],
    last_ends: Mapping[int, datetime],
    now: datetime,
) -> float:
    """Return for how long a run was going on, over all of its legs.

    Args:
        last_ends: leg -> end of its last result: until then a leg that nobody has closed went on,
            if its coordinator has died.
    """
    total, began, leg = _NO_TIME, sealed_at, 1
    is_open = True
    for record in records:
        if record.action in _CLOSING and not record.attempts and is_open:
            total += max(_NO_TIME, record.at - began)
            is_open = False
        elif record.action in _OPENING:
            if is_open:
                total += max(_NO_TIME, min(record.at, last_ends.get(leg, began)) - began)
            began, leg, is_open = record.at, record.leg, True
    if is_open:
        total += max(_NO_TIME, now - began)
    return total.total_seconds()
