"""Tokens and money: incurred, accepted, wasted."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from agentcompass.metrics.usage import Spend, Total, UsageTally, spend_of

HUNDRED = Spend(input_tokens=100)


def test_retries_are_paid_once_and_reused_results_not_again() -> None:
    tally = UsageTally()
    tally.add(HUNDRED, [HUNDRED, HUNDRED], is_reused=False)
    tally.add(HUNDRED, [HUNDRED], is_reused=True)

    totals = tally.totals()

    assert totals.incurred.input_tokens == Total(value=300, known=3, of=3)
    assert totals.accepted.input_tokens == Total(value=200, known=2, of=2)
    assert totals.wasted.input_tokens == Total(value=200, known=2, of=2)


def test_tokens_of_both_directions_and_money_are_told_apart() -> None:
    tally = UsageTally()
    tally.add(Spend(input_tokens=7, output_tokens=3, cost_usd=0.5), [], is_reused=False)

    account = tally.totals().incurred

    assert (account.input_tokens.value, account.output_tokens.value) == (7, 3)
    assert account.cost_usd.value == 0.5


def test_an_unknown_price_is_null_and_not_free() -> None:
    tally = UsageTally()
    tally.add(HUNDRED, [], is_reused=False)

    assert tally.totals().incurred.cost_usd == Total(value=None, known=0, of=1)


def test_a_sum_says_how_many_executions_it_covers() -> None:
    tally = UsageTally()
    tally.add(Spend(cost_usd=0.1), [], is_reused=False)
    tally.add(Spend(cost_usd=0.2), [], is_reused=False)
    tally.add(Spend(), [], is_reused=False)

    assert tally.totals().accepted.cost_usd == Total(value=0.1 + 0.2, known=2, of=3)


def test_an_attempt_that_never_ended_still_wasted_its_tries() -> None:
    tally = UsageTally()
    tally.add(None, [HUNDRED], is_reused=False)

    assert tally.totals().wasted.input_tokens.value == 100
    assert tally.totals().accepted.input_tokens.of == 0


@pytest.mark.parametrize(
    ("telemetry", "spend"),
    [
        (
            {"usage": {"prompt_tokens": 7, "completion_tokens": 5}, "cost_usd": 0.5},
            Spend(input_tokens=7, output_tokens=5, cost_usd=0.5),
        ),
        (
            {"usage": {"input_tokens": 7, "output_tokens": 0}, "cost_usd": 2},
            Spend(input_tokens=7, output_tokens=0, cost_usd=2.0),
        ),
        ("no mapping at all", Spend()),
        (None, Spend()),
        ({"usage": {"input_tokens": 10**30}}, Spend()),
        ({"usage": {"prompt_tokens": "7"}, "cost_usd": "0.5"}, Spend()),
        ({"usage": {"prompt_tokens": True}, "cost_usd": True}, Spend()),
        ({"usage": {"prompt_tokens": -1}, "cost_usd": -1.0}, Spend()),
        ({"usage": [1], "cost_usd": None}, Spend()),
        ({}, Spend()),
    ],
)
def test_only_plain_numbers_of_telemetry_are_believed(
    telemetry: dict[str, JsonValue], spend: Spend
) -> None:
    assert spend_of(telemetry) == spend
