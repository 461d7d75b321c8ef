"""Evaluating a run again: a new run in which no agent runs, from the snapshots of another one.

It is reuse with another question: not *which results still count?* but *what did the agents leave?*
So the request is the source's own with other settings of its evaluation, and all the rest is reuse.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentcompass.coordinator.asking.policy import differences
from agentcompass.coordinator.asking.requests import expanded, merged
from agentcompass.coordinator.asking.validation import request_of
from agentcompass.coordinator.refusal import Refusal
from agentcompass.models.base import JsonObject
from agentcompass.models.request import Request, ReuseSettings
from agentcompass.store import control, sealed

_CHANGEABLE: Final = (
    *("benchmark.", "evaluation_environment", "runtime.", "selection.", "output.", "metadata"),
    *("execution.setup_timeout_s", "execution.evaluate_timeout_s", "execution.timeout_multiplier"),
    *("execution.max_retries", "execution.retry_patterns", "execution.max_failed_tasks"),
    *("execution.analyzers",),
)
_AGENTS: Final = ("execution.run_timeout_s", "execution.collect_timeout_s")
"""May change only where agents may run."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How a run is to be evaluated again."""

    changes: JsonObject
    """Shaped like a request file, only with what was given."""
    run_missing_agents: bool = False
    keep_missing: bool = False


def request_for(run_dir: Path, wish: Wish) -> Request:
    """Return the request of the new run: the source's as it was in force, with these changes.

    Raises:
        RunNotFound, RunNotSealed, RecordCorrupt: there is nothing to evaluate.
        Refusal: something would change that is the agents' business.
        UsageError: a field or value is not valid.
    """
    info = sealed.load_sealed(run_dir)
    policy = control.legs(run_dir)
    own = info.request
    in_force = own.model_copy(
        update={
            "execution": policy.execution or own.execution,
            "runtime": policy.runtime or own.runtime,
            "output": own.output.model_copy(update={"run_id": None}),
            "reuse": None,
        }
    )
    before: JsonObject = json.loads(in_force.model_dump_json())
    wanted = request_of(
        merged(before, expanded(wish.changes)), where=f"what evaluate was given for {run_dir}"
    )
    _refuse_other_changes(in_force, wanted, wish)
    reuse = ReuseSettings(
        run_id=str(run_dir.resolve()),
        only_evaluate=True,
        run_missing_agents=wish.run_missing_agents,
        keep_missing=wish.keep_missing,
    )
    return wanted.model_copy(update={"reuse": reuse})


def needs_agents(request: Request) -> bool:
    """Return whether agents may run under a request, so that their secrets must be there."""
    reuse = request.reuse
    return reuse is None or not reuse.only_evaluate or reuse.run_missing_agents


def _refuse_other_changes(before: Request, wanted: Request, wish: Wish) -> None:
    allowed = (*_CHANGEABLE, *(_AGENTS if wish.run_missing_agents else ()))
    for path, old, new in _changes(before, wanted):
        if not path.startswith(allowed):
            raise Refusal(
                "field_frozen",
                f"evaluate cannot change {path} from {old} to {new}: no agent runs again",
                where=path,
                hint="start a new run for that",
            )


def _changes(before: Request, wanted: Request) -> Sequence[tuple[str, str, str]]:
    one: JsonObject = json.loads(before.model_dump_json())
    other: JsonObject = json.loads(wanted.model_dump_json())
    return [
        (path, json.dumps(old)[:60], json.dumps(new)[:60])
        for path, old, new in differences(one, other)
    ]
