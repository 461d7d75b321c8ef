"""Opening, calming and closing an environment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from agentcompass.environments.base import Environment, EnvironmentPlan
from agentcompass.models.request import ComponentSpec
from agentcompass.runtime import components
from agentcompass.runtime.calling.interrupts import Limit
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.runtime.execution.failures import Failure, Where, failure_of
from agentcompass.runtime.limits import environment_place
from agentcompass.runtime.phases.plugin import tried
from agentcompass.runtime.ports import Bounds, KillReason, StopSignal
from agentcompass.runtime.values import secrets
from agentcompass.runtime.values.references import on_worker

CLOSE_S: Final = 120.0
"""Removing a container or a large folder may take its time, but not for ever."""
_GIVE_BACK: Final[WeakKeyDictionary[Environment[BaseModel], Callable[[], None]]] = (
    WeakKeyDictionary()
)
"""What gives the slot of an open environment back, where environments are limited."""


def opened(
    attempt: Attempt, spec: ComponentSpec, name: str, limit: Limit, where: Where
) -> Environment[BaseModel] | Failure:
    """Return a started environment of the attempt's own, in the folder `name`, or why there is none."""
    try:
        environment = components.load(
            "environment",
            on_worker(spec, attempt.site.environ),
            trusted_roots=attempt.site.trusted_roots,
        )
        variables = secrets.variables(attempt.spec.env, attempt.site.environ)
    except Exception as error:  # noqa: BLE001 - a plug-in's constructor may raise anything
        return failure_of(error, where)
    folder = attempt.place(name) if environment.makes_its_folder else attempt.folder(name)
    plan = EnvironmentPlan(
        token=attempt.identity.token,
        work_dir=folder,
        env=variables,
        resources=attempt.spec.resources,
        labels={
            "run": attempt.identity.run_id,
            "task": attempt.identity.task_id,
            "attempt": str(attempt.identity.attempt),
        },
    )
    _wait_for_a_slot(attempt, environment, spec.id, limit, where)
    started = tried(where, limit, environment.start, plan)
    if isinstance(started, Failure):
        closed(environment)  # a half-started one may hold a container
        return started
    return environment


def _wait_for_a_slot(
    attempt: Attempt, environment: Environment[BaseModel], kind: str, limit: Limit, where: Where
) -> None:
    """Wait until there are few enough of this kind, if the run limits them."""
    at_once, turns = attempt.limits.concurrent_environments, attempt.turns
    if at_once is None or turns is None:
        return
    reason: KillReason = "setup_timeout" if where == "open" else "evaluation_timeout"
    bounds = Bounds(at_once)
    slot = turns.slot(environment_place(kind))
    turns.enter(slot, bounds, partial(attempt.standing_still, limit, reason))
    _GIVE_BACK[environment] = partial(turns.limits.leave, slot, bounds)


def closed(environment: Environment[BaseModel]) -> Failure | None:
    """End and remove the environment, also while the execution is being stopped."""
    limit = Limit.starting_now(CLOSE_S, StopSignal())
    result = tried("close", limit, environment.close)
    give_back = _GIVE_BACK.pop(environment, None)
    if give_back is not None:
        give_back()
    return result if isinstance(result, Failure) else None


def calmed(environment: Environment[BaseModel], limit: Limit, where: Where) -> Failure | None:
    """End everything that still runs inside: from here on only we change anything in it."""
    result = tried(where, limit, environment.quiesce)
    return result if isinstance(result, Failure) else None
