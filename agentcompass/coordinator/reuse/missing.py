"""Attempts of which nothing is left to evaluate, where only evaluations were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.reuse.examine import Reuse
from agentcompass.models.request import ReuseSettings

_SHOWN: Final = 3


def missing_lines(reuse: Reuse) -> Iterator[str]:
    """Yield one line about each attempt of which nothing is left to evaluate."""
    for task_id, number, why in reuse.missing:
        yield f"nothing to evaluate: {task_id} attempt {number}: {why}"


def refuse_missing_agents(reuse: Reuse, settings: ReuseSettings) -> None:
    """Refuse to run agents where only evaluations were asked for.

    Raises:
        Refusal: `agents_missing`.
    """
    missing = reuse.missing
    if not settings.only_evaluate or settings.run_missing_agents or not missing:
        return
    named = ", ".join(f"{task} a{number}" for task, number, _ in missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    raise Refusal(
        "agents_missing",
        f"of {len(missing)} attempts nothing is left to evaluate: {named}{more}",
        where=str(reuse.source.run_dir),
        hint="--run-missing-agents runs these agents; --keep-missing takes their old results, where "
        "there are some; --task-id leaves tasks out",
    )
