"""Whether a failed try is repeated, how much of it, and after how long (contracts, §10). Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from agentcompass.models.issue import Issue
from agentcompass.models.plan import EvaluationMode, RetryPolicy
from agentcompass.runtime.execution.failures import Failure

LONGEST_WISH_S: Final = 3_600.0
"""A server may ask for more; an attempt that waits longer than this is better started again."""
_REPEATABLE: Final[frozenset[EvaluationMode]] = frozenset({"none", "fresh"})


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again."""

    after_s: float
    """Before it was spread; at least what the server asked for."""
    only_evaluation: bool

    def delay_s(self, rng: random.Random, wished_s: float | None) -> float:
        """Return the wait: uniform in the upper half of `after_s`, and as long as was asked for."""
        spread = rng.uniform(self.after_s / 2, self.after_s)
        return max(spread, min(wished_s or 0.0, LONGEST_WISH_S))


def decide_retry(
    failures: Sequence[Failure], policy: RetryPolicy, used: int, mode: EvaluationMode
) -> Retry | None:
    """Return how the try is repeated, or None if its result stands.

    Args:
        failures: everything that went wrong in this try.
        used: retries of this attempt so far, over all its executions.
        mode: where the evaluation runs; the agent's own environment is gone afterwards.
    """
    if used >= policy.max_retries or any(failure.is_permanent for failure in failures):
        return None
    reasons = [each.issue for each in failures if _allows(each.issue, policy)]
    if not reasons:
        return None
    in_evaluation = all(reason.phase == "evaluate" for reason in reasons)
    return Retry(
        after_s=min(policy.base_delay_s * 2.0**used, policy.max_delay_s),
        only_evaluation=in_evaluation and mode in _REPEATABLE,
    )


def wished_s(failures: Sequence[Failure]) -> float | None:
    """Return the longest wait that a server asked for."""
    return max((each.retry_after_s or 0.0 for each in failures), default=None)


def _allows(issue: Issue, policy: RetryPolicy) -> bool:
    if issue.severity == "fatal":
        return True
    if issue.severity == "warning":
        return False
    return any(_matches(pattern, issue) for pattern in policy.patterns)


def _matches(pattern: str, issue: Issue) -> bool:
    compiled = _compiled(pattern)
    if compiled is None:
        return False
    return bool(compiled.search(issue.code) or compiled.search(issue.message))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return the pattern; None for a wrong one, which the coordinator refuses before the run."""
    try:
        return re.compile(pattern)
    except re.error:
        return None
