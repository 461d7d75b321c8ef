"""What a recipe promises (contracts, §9)."""

from __future__ import annotations

from typing import ClassVar

from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.request import Request
from agentcompass.models.task import TaskSpec


class Recipe:
    """Adapts the plans of a benchmark to an environment; recorded in the plan by its id.

    It may change how and where an attempt is executed, and parameters of its components; not what is
    evaluated: the benchmark, the harness and the model stay what the request says.
    """

    id: ClassVar[str]
    is_automatic: ClassVar[bool] = True
    """False if it applies only where the request names it."""

    def match(self, request: Request) -> bool:
        """Return True if this recipe applies to the request."""
        raise NotImplementedError

    def apply(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
        """Return the adapted plan of one task; raising is this task's FATAL setup `setup_failed`."""
        raise NotImplementedError
