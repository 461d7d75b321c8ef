"""Analyzer `empty_output`."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from agentcompass.analyzers.base import Analyzer
from agentcompass.analyzers.numbers import share
from agentcompass.analyzers.steps import is_blank, steps_of
from agentcompass.models.base import JsonObject, NoParams, Record
from agentcompass.models.result import AttemptResult


class Emptiness(Record):
    """Of one attempt."""

    has_answer: bool
    """False for null, white space, or containers of such."""
    is_null: bool
    """Nothing was answered at all, which is how tasks with files as answers look."""
    steps: int | None = None
    empty_steps: int = 0
    """Steps in which the model said nothing and called nothing."""


class EmptyOutput(Analyzer[NoParams]):
    """Answers with nothing in them, and steps in which the model said and called nothing."""

    id = "empty_output"

    @override
    def analyze(self, attempt: AttemptResult) -> JsonObject:
        steps = steps_of(attempt)
        said = [step.assistant_content for step in steps or ()]
        return Emptiness(
            has_answer=not is_blank(attempt.final_answer),
            is_null=attempt.final_answer is None,
            steps=len(steps) if steps is not None else None,
            empty_steps=sum(not each.tool_calls and is_blank(each.content) for each in said),
        ).model_dump()

    @override
    def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        attempts = empty = null = steps = empty_steps = 0
        for each in map(Emptiness.model_validate, results):
            attempts += 1
            empty += not each.has_answer
            null += each.is_null
            steps += each.steps or 0
            empty_steps += each.empty_steps
        return {
            "without_answer": empty,
            "share_without_answer": share(empty, attempts),
            "of_them_null": null,
            "empty_steps": empty_steps if steps else None,
            "share_of_steps": share(empty_steps, steps),
        }
