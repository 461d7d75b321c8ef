"""Analyzer `tokens`."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from agentcompass.analyzers.base import Analyzer
from agentcompass.analyzers.numbers import Measured, Spread, measured
from agentcompass.analyzers.steps import steps_of
from agentcompass.models.base import JsonObject, NoParams, Record
from agentcompass.models.result import AttemptResult


class TokenUse(Record):
    """Of one attempt; null without a trajectory."""

    steps: int | None = None
    prompt_tokens: Measured = Measured()
    completion_tokens: Measured = Measured()


class Tokens(Analyzer[NoParams]):
    """Tokens per attempt and the longest prompt, as the steps report them."""

    id = "tokens"

    @override
    def analyze(self, attempt: AttemptResult) -> JsonObject:
        steps = steps_of(attempt)
        if steps is None:
            return TokenUse().model_dump()
        return TokenUse(
            steps=len(steps),
            prompt_tokens=measured(step.metric.prompt_tokens_len for step in steps),
            completion_tokens=measured(step.metric.completion_tokens_len for step in steps),
        ).model_dump()

    @override
    def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        """Spread the sums of those attempts of which every step reported its tokens."""
        steps, prompt, completion, longest = Spread(), Spread(), Spread(), Spread()
        for each in map(TokenUse.model_validate, results):
            has_steps = bool(each.steps)
            steps.add(each.steps)
            prompt.add(each.prompt_tokens.whole if has_steps else None)
            completion.add(each.completion_tokens.whole if has_steps else None)
            longest.add(each.prompt_tokens.max)
        return {
            "steps": steps.summary(),
            "prompt_tokens": prompt.summary(),
            "completion_tokens": completion.summary(),
            "longest_prompt_tokens": longest.summary(),
        }
