"""What the settings of a request, or of a later leg, mean for one attempt's plan."""

from __future__ import annotations

from agentcompass.models.plan import Deadlines, ExecutionPlan, RetryPolicy
from agentcompass.models.request import ExecutionSettings
from agentcompass.models.task import TaskTimeouts


def deadlines(settings: ExecutionSettings, own: TaskTimeouts) -> Deadlines:
    """Return the deadlines of a task: its own where it has some, all multiplied."""
    factor = settings.timeout_multiplier
    return Deadlines(
        setup_timeout_s=(own.setup_timeout_s or settings.setup_timeout_s) * factor,
        run_timeout_s=(own.run_timeout_s or settings.run_timeout_s) * factor,
        collect_timeout_s=(own.collect_timeout_s or settings.collect_timeout_s) * factor,
        evaluate_timeout_s=(own.evaluate_timeout_s or settings.evaluate_timeout_s) * factor,
    )


def retry_policy(settings: ExecutionSettings) -> RetryPolicy:
    """Return how often and after what an attempt is tried again."""
    return RetryPolicy(max_retries=settings.max_retries, patterns=settings.retry_patterns)


def under(
    plan: ExecutionPlan,
    frozen: ExecutionSettings,
    changed: ExecutionSettings | None,
    own: TaskTimeouts,
) -> ExecutionPlan:
    """Return the plan as it is after a later leg changed the policy, or as it was frozen.

    A deadline that is not what the frozen settings ask for is a recipe's, and stays but for a changed
    multiplier.
    """
    if changed is None:
        return plan
    asked, now = deadlines(frozen, own), deadlines(changed, own)
    factor = changed.timeout_multiplier / frozen.timeout_multiplier
    found = {
        name: getattr(now, name) if value == getattr(asked, name) else value * factor
        for name, value in plan.deadlines
    }
    return plan.model_copy(update={"deadlines": Deadlines(**found), "retry": retry_policy(changed)})
