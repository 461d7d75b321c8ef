"""What calls cost at the request's prices; what is not known is null, never zero. Pure."""

from __future__ import annotations

from agentcompass.errors import PermanentFailure
from agentcompass.llm.base import Reply
from agentcompass.models.request import ModelPrices


def cost_usd(reply: Reply, prices: ModelPrices) -> float | None:
    """Return US dollars; None if a price or a count that it needs is not known.

    Cached, written and reasoning tokens have the price of their side, unless they have one of their own.
    """
    input_usd = _side(
        reply.prompt_tokens,
        prices.input_usd_per_mtok,
        (reply.cached_tokens, prices.cached_input_usd_per_mtok),
        (reply.cache_write_tokens, prices.cache_write_usd_per_mtok),
    )
    output_usd = _side(
        reply.completion_tokens,
        prices.output_usd_per_mtok,
        (reply.reasoning_tokens, prices.reasoning_usd_per_mtok),
    )
    return None if input_usd is None or output_usd is None else input_usd + output_usd


def require_prices(max_cost_usd: float | None, prices: ModelPrices) -> None:
    """Refuse a limit on what nobody can tell.

    Raises:
        PermanentFailure: FATAL setup `setup_failed`.
    """
    if max_cost_usd is not None and not prices.are_known:
        why = "harness.max_cost_usd needs model.prices, input and output"
        raise PermanentFailure("fatal", "setup", "setup_failed", why)


def _side(
    tokens: int | None, price: float | None, *special: tuple[int | None, float | None]
) -> float | None:
    """Price one side's tokens, of which some may have a price of their own."""
    if tokens is None or price is None:
        return None
    plain, usd = tokens, 0.0
    for some, own_price in special:
        if own_price is None:
            continue
        if some is None:
            return None
        plain -= some
        usd += some * own_price
    return (max(plain, 0) * price + usd) / 1e6
