"""What a recipe promises (contracts, §9)."""

from __future__ import annotations

from typing import ClassVar

from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.request import Request
from agentcompass.models.task import TaskSpec


class Recipe:
    """Adapts the plans of a benchmark to an environment; recorded in the plan by its id."""

    id: ClassVar[str]

    def match(self, request: Request) -> bool:
        """Return True if this recipe applies to the request."""
        raise NotImplementedError

    def apply(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
        """Return the adapted plan of one task."""
        raise NotImplementedError
