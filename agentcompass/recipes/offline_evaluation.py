"""Recipe `offline_evaluation`."""

from __future__ import annotations

from typing import ClassVar, Final

from typing_extensions import override

from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.request import Request
from agentcompass.models.task import TaskSpec
from agentcompass.recipes.base import Recipe

_CAN: Final = frozenset({"bubblewrap", "docker"})
"""Environments that can be without a network."""


class OfflineEvaluation(Recipe):
    """What agents wrote is judged without a network, in mode fresh; only where the request names it."""

    id: ClassVar[str] = "offline_evaluation"
    is_automatic: ClassVar[bool] = False

    @override
    def match(self, request: Request) -> bool:
        return (request.evaluation_environment or request.environment).id in _CAN

    @override
    def apply(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
        if plan.evaluation_mode != "fresh":
            raise ValueError(f"its evaluation mode is {plan.evaluation_mode}, not fresh")
        judged = plan.evaluation_environment or plan.environment
        offline = judged.model_copy(update={"params": {**judged.params, "network": "none"}})
        return plan.model_copy(update={"evaluation_environment": offline})
