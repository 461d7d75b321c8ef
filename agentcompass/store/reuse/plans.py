"""The plans under which taken attempts were executed, copied so that a new run is self-contained."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256

from agentcompass.models.base import JsonObject
from agentcompass.models.plan import ReusedPlans, TaskPlans
from agentcompass.store.foreign.head import as_object
from agentcompass.store.reuse.source import Source


class PlanCopy:
    """Collects the plans of one source's attempts, each distinct one once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._plans: dict[str, JsonObject] = {}
        self._tasks: dict[str, dict[str, str]] = {}
        self._uses = Counter[str]()

    def add(self, task_id: str, attempt: int, *, was_reused: bool) -> None:
        """Remember the plan of one taken attempt, if the source has one.

        Args:
            was_reused: the source itself took it from another run.
        """
        digest = self._ours(task_id, attempt, was_reused=was_reused)
        digest = digest or self._theirs(task_id, attempt)
        if digest:
            self._uses[digest] += 1
            self._tasks.setdefault(task_id, {})[str(attempt)] = digest

    def collected(self) -> ReusedPlans | None:
        """Return them, the most frequent one as the default; None if there is none."""
        if not self._uses:
            return None
        default = self._uses.most_common(1)[0][0]
        others = {
            task_id: TaskPlans(attempts=numbered)
            for task_id, numbered in self._tasks.items()
            if set(numbered.values()) != {default}
        }
        return ReusedPlans(plans=self._plans, default=default, tasks=others)

    def _ours(self, task_id: str, attempt: int, *, was_reused: bool) -> str:
        resolved = self._source.info.resolved_execution_plans if self._source.info else None
        if resolved is None:
            return ""
        book = resolved.reused if was_reused and resolved.reused is not None else resolved
        own = book.tasks.get(task_id)
        digest = own.attempts.get(str(attempt), book.default) if own else book.default
        if digest not in self._plans:
            plan = book.plans[digest]
            self._plans[digest] = plan if isinstance(plan, dict) else plan.model_dump(mode="json")
        return digest

    def _theirs(self, task_id: str, attempt: int) -> str:
        numbered = as_object(as_object(self._source.plans.get(task_id)).get("attempts"))
        plan = as_object(numbered.get(str(attempt)))
        if not plan:
            return ""
        canonical = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest = sha256(canonical.encode()).hexdigest()
        self._plans.setdefault(digest, plan)
        return digest
