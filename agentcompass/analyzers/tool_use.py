"""Analyzer `tool_use`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pydantic import Field
from typing_extensions import override

from agentcompass.analyzers.base import Analyzer
from agentcompass.analyzers.numbers import Spread, share
from agentcompass.analyzers.steps import has_readable_arguments, steps_of, tool_name
from agentcompass.models.base import Frozen, JsonObject, Record
from agentcompass.models.result import AttemptResult

UNNAMED = "(unnamed)"


class ToolUseParams(Frozen):
    """How much is kept."""

    most_tools: int = Field(default=50, ge=1)
    """Names kept of one attempt and of the run, the most used first; the others are summed up."""


class Used(Record):
    """Of one attempt; null without a trajectory."""

    steps: int | None = None
    steps_with_calls: int = 0
    calls: int = 0
    unreadable_arguments: int = 0
    """Calls whose arguments are no JSON object."""
    by_tool: dict[str, int] = Field(default_factory=dict)
    other_tools: int = 0
    """Calls of tools that are not named here."""


class ToolUse(Analyzer[ToolUseParams]):
    """Which tools the agent calls, how often, and with arguments that can be read or not."""

    id = "tool_use"
    Params = ToolUseParams

    @override
    def analyze(self, attempt: AttemptResult) -> JsonObject:
        steps = steps_of(attempt)
        if steps is None:
            return Used().model_dump()
        made = [step.assistant_content.tool_calls for step in steps]
        calls = [call for each in made for call in each]
        names = Counter(tool_name(call) or UNNAMED for call in calls)
        kept = dict(names.most_common(self.params.most_tools))
        return Used(
            steps=len(steps),
            steps_with_calls=sum(map(bool, made)),
            calls=len(calls),
            unreadable_arguments=sum(not has_readable_arguments(call) for call in calls),
            by_tool=kept,
            other_tools=len(calls) - sum(kept.values()),
        ).model_dump()

    @override
    def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        per_attempt = Spread()
        names, attempts = Counter[str](), Counter[str]()
        observed = using = unreadable = other = 0
        for each in map(Used.model_validate, results):
            per_attempt.add(each.calls if each.steps is not None else None)
            observed += each.steps is not None
            using += bool(each.calls)
            unreadable += each.unreadable_arguments
            other += each.other_tools
            names.update(each.by_tool)
            attempts.update(each.by_tool.keys())
        kept = names.most_common(self.params.most_tools)
        return {
            "attempts_with_calls": using,
            "share_with_calls": share(using, observed),
            "calls_per_attempt": per_attempt.summary(),
            "unreadable_arguments": unreadable if observed else None,
            "by_tool": {name: {"calls": count, "attempts": attempts[name]} for name, count in kept},
            "calls_of_other_tools": other + names.total() - sum(count for _, count in kept),
        }
