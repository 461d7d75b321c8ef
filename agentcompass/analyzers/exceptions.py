"""Analyzer `exceptions`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import Field
from typing_extensions import override

from agentcompass.analyzers.base import Analyzer
from agentcompass.analyzers.steps import first_characters, steps_of, texts
from agentcompass.models.base import Frozen, JsonObject, Record
from agentcompass.models.result import AttemptResult

_RAISED: Final = re.compile(
    r"^(?:[A-Za-z_][\w.]{0,200}\.)?([A-Z][A-Za-z0-9_]{0,80}(?:Error|Exception|Warning|Interrupt|Exit))\b(?=:|[ \t]*$)",
    re.MULTILINE,
)
"""The last line of a traceback: a class whose name says what it is, at the start of a line."""


class ExceptionsParams(Frozen):
    """How far is looked."""

    most_characters: int = Field(default=1_000_000, ge=1)
    """Of one attempt's observations; what is beyond them is not looked at."""
    most_types: int = Field(default=50, ge=1)
    """Kept of one attempt and of the run, the most frequent first."""


class Raised(Record):
    """Of one attempt."""

    issues: dict[str, int] = Field(default_factory=dict)
    """`severity phase code` -> how many."""
    retries: int = 0
    seen: dict[str, int] | None = None
    """Exceptions that the agent saw in its environment, by type; null without a trajectory."""


class Exceptions(Analyzer[ExceptionsParams]):
    """What went wrong: issues of the attempts, and exceptions that the agent saw where it acts."""

    id = "exceptions"
    Params = ExceptionsParams

    @override
    def analyze(self, attempt: AttemptResult) -> JsonObject:
        issues = Counter(f"{each.severity} {each.phase} {each.code}" for each in attempt.issues)
        steps = steps_of(attempt)
        seen = None
        if steps is not None:
            observed = (text for step in steps for text in texts(step.observation))
            found = Counter(self._types(observed))
            seen = dict(found.most_common(self.params.most_types))
        return Raised(issues=dict(issues), retries=attempt.retry_count, seen=seen).model_dump()

    @override
    def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        issues, issue_attempts = Counter[str](), Counter[str]()
        seen, seen_attempts = Counter[str](), Counter[str]()
        retries = observed = 0
        for each in map(Raised.model_validate, results):
            issues.update(each.issues)
            issue_attempts.update(each.issues.keys())
            seen.update(each.seen or {})
            seen_attempts.update((each.seen or {}).keys())
            retries += each.retries
            observed += each.seen is not None
        return {
            "retries": retries,
            "issues": self._counted(issues, issue_attempts),
            "attempts_observed": observed,
            "seen_by_the_agent": self._counted(seen, seen_attempts) if observed else None,
        }

    def _types(self, observed: Iterable[str]) -> Iterator[str]:
        for text in first_characters(observed, self.params.most_characters):
            yield from _RAISED.findall(text)

    def _counted(self, found: Counter[str], attempts: Counter[str]) -> JsonObject:
        return {
            name: {"count": count, "attempts": attempts[name]}
            for name, count in found.most_common(self.params.most_types)
        }
