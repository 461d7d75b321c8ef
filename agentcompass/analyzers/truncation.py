"""Analyzer `truncation`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pydantic import Field
from typing_extensions import override

from agentcompass.analyzers.base import Analyzer
from agentcompass.analyzers.numbers import share
from agentcompass.analyzers.steps import steps_of
from agentcompass.models.base import Frozen, JsonObject, Record
from agentcompass.models.result import AttemptResult


class TruncationParams(Frozen):
    """Which stop reasons mean that an answer was cut off."""

    stop_reasons: tuple[str, ...] = (
        *("length", "max_tokens", "max_output_tokens", "model_length", "incomplete"),
        *("model_context_window_exceeded",),
    )
    """As servers name them; compared without regard to case."""


class Truncated(Record):
    """Of one attempt."""

    known: int = 0
    """Steps that report why the model stopped."""
    truncated_steps: int = 0
    is_truncated: bool | None = None
    """Null if no step reports why."""
    is_last_truncated: bool | None = None
    """Of the last step: the final answer itself was cut."""
    stop_reasons: dict[str, int] = Field(default_factory=dict)


class Truncation(Analyzer[TruncationParams]):
    """Answers that a token limit cut off."""

    id = "truncation"
    Params = TruncationParams

    @override
    def analyze(self, attempt: AttemptResult) -> JsonObject:
        reasons = [step.metric.stop_reason for step in steps_of(attempt) or ()]
        known = Counter(reason for reason in reasons if reason)
        cut = sum(count for reason, count in known.items() if self._is_cut(reason))
        last = reasons[-1] if reasons else None
        return Truncated(
            known=known.total(),
            truncated_steps=cut,
            is_truncated=cut > 0 if known else None,
            is_last_truncated=self._is_cut(last) if last else None,
            stop_reasons=dict(known.most_common(20)),
        ).model_dump()

    @override
    def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        reasons = Counter[str]()
        truncated, last = Counter[bool | None](), Counter[bool | None]()
        for each in map(Truncated.model_validate, results):
            reasons.update(each.stop_reasons)
            truncated[each.is_truncated] += 1
            last[each.is_last_truncated] += 1
        known = truncated[True] + truncated[False]
        return {
            "attempts_known": known,
            "truncated_attempts": truncated[True] if known else None,
            "share_truncated": share(truncated[True], known),
            "share_last_truncated": share(last[True], last[True] + last[False]),
            "stop_reasons": dict(reasons.most_common(20)),
        }

    def _is_cut(self, reason: str) -> bool:
        return reason.lower() in {each.lower() for each in self.params.stop_reasons}
