"""Tokens and money of a run: what was spent now, what the accepted results cost, what was wasted.

    incurred   this run's own executions: accepted results that were not reused, and discarded tries
    accepted   the results that the report is made of, reused ones included
    wasted     discarded tries

Unknown is not zero: a sum covers the executions that report a number, and says of how many.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum

from pydantic import Field

from agentcompass.models.base import Frozen

_INPUT_KEYS = ("input_tokens", "prompt_tokens")
_MOST_USD = 1e12
_MOST_TOKENS = 10**15
_OUTPUT_KEYS = ("output_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True)
class Spend:
    """Of one execution; None = it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class Total(Frozen):
    """A sum and what it covers."""

    value: float | None
    """None if no execution reported a number."""
    known: int = Field(ge=0)
    of: int = Field(ge=0)
    """Executions, with a number or without."""


class SpendTotal(Frozen):
    """The three sums of one account."""

    input_tokens: Total
    output_tokens: Total
    cost_usd: Total


class UsageTotals(Frozen):
    """The three accounts of a run; not part of the metrics, since retries depend on luck."""

    incurred: SpendTotal
    accepted: SpendTotal
    wasted: SpendTotal


def spend_of(telemetry: object) -> Spend:
    """Return what `meta.harness.telemetry` reports: `usage` as model servers send it, `cost_usd`.

    Harnesses report anything; what is no such number is not known.
    """
    reported = telemetry if isinstance(telemetry, Mapping) else {}
    usage = reported.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    return Spend(
        input_tokens=_first_count(counts, _INPUT_KEYS),
        output_tokens=_first_count(counts, _OUTPUT_KEYS),
        cost_usd=_money(reported.get("cost_usd")),
    )


def _first_count(usage: Mapping[str, object], keys: Iterable[str]) -> int | None:
    for key in keys:
        value = usage.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS:
            return value
    return None


def _money(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MOST_USD else None


class UsageTally:
    """Adds up one run, attempt by attempt."""

    def __init__(self) -> None:
        self._incurred = _Account()
        self._accepted = _Account()
        self._wasted = _Account()

    def add(self, accepted: Spend | None, discarded: Iterable[Spend], *, is_reused: bool) -> None:
        """Count one attempt.

        Args:
            accepted: of its published result, None if it has none.
            discarded: of its tries under `retries/`.
            is_reused: the result was taken from another run, which paid for it and for its tries.
        """
        if accepted is not None:
            self._accepted.add(accepted)
        if is_reused:
            return
        if accepted is not None:
            self._incurred.add(accepted)
        for spend in discarded:
            self._incurred.add(spend)
            self._wasted.add(spend)

    def totals(self) -> UsageTotals:
        """Return the three accounts."""
        return UsageTotals(
            incurred=self._incurred.total(),
            accepted=self._accepted.total(),
            wasted=self._wasted.total(),
        )


class _Account:
    """Tokens are whole numbers; money is kept apart, 8 bytes each, and rounded once."""

    def __init__(self) -> None:
        self._executions = 0
        self._tokens = {"input_tokens": 0, "output_tokens": 0}
        self._known = dict.fromkeys(self._tokens, 0)
        self._costs = array("d")

    def add(self, spend: Spend) -> None:
        self._executions += 1
        if spend.input_tokens is not None:
            self._tokens["input_tokens"] += spend.input_tokens
            self._known["input_tokens"] += 1
        if spend.output_tokens is not None:
            self._tokens["output_tokens"] += spend.output_tokens
            self._known["output_tokens"] += 1
        if spend.cost_usd is not None:
            self._costs.append(spend.cost_usd)

    def total(self) -> SpendTotal:
        known = len(self._costs)
        cost = fsum(self._costs) if known else None
        return SpendTotal(
            input_tokens=self._of_tokens("input_tokens"),
            output_tokens=self._of_tokens("output_tokens"),
            cost_usd=Total(value=cost, known=known, of=self._executions),
        )

    def _of_tokens(self, name: str) -> Total:
        known = self._known[name]
        value = float(self._tokens[name]) if known else None
        return Total(value=value, known=known, of=self._executions)
