from __future__ import annotations

import pytest

from agentcompass.llm.base import Reply
from agentcompass.llm.spending import cost_usd
from agentcompass.models.request import ModelPrices

REPLY = Reply("42", prompt_tokens=10, completion_tokens=2, cached_tokens=4, reasoning_tokens=1)


def prices(**more: float) -> ModelPrices:
    return ModelPrices(input_usd_per_mtok=1.0, output_usd_per_mtok=10.0).model_copy(update=more)


@pytest.mark.parametrize(
    ("given", "micro_usd"),
    [
        (prices(), 30.0),
        (prices(cached_input_usd_per_mtok=0.5), 28.0),
        (prices(cached_input_usd_per_mtok=0.0, reasoning_usd_per_mtok=20.0), 36.0),
        (ModelPrices(input_usd_per_mtok=1.0), None),
        (ModelPrices(output_usd_per_mtok=1.0), None),
        (ModelPrices(input_usd_per_mtok=0.0, output_usd_per_mtok=0.0), 0.0),
        (ModelPrices(), None),
    ],
)
def test_a_cost_is_known_only_if_all_of_it_is(given: ModelPrices, micro_usd: float | None) -> None:
    usd = cost_usd(REPLY, given)

    assert (usd is None) is (micro_usd is None)
    assert usd == pytest.approx(None if micro_usd is None else micro_usd / 1e6)


def test_a_price_of_its_own_for_tokens_that_were_not_counted_makes_the_cost_unknown() -> None:
    plain = Reply("42", prompt_tokens=10, completion_tokens=2)

    assert cost_usd(plain, prices()) is not None
    assert cost_usd(plain, prices(reasoning_usd_per_mtok=20.0)) is None
    assert cost_usd(plain, prices(cache_write_usd_per_mtok=20.0)) is None
