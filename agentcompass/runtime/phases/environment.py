"""Opening, calming and closing an environment."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from agentcompass.environments.base import Environment, EnvironmentPlan
from agentcompass.models.request import ComponentSpec
from agentcompass.runtime import components
from agentcompass.runtime.calling.interrupts import Limit
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.runtime.execution.failures import Failure, Where, failure_of
from agentcompass.runtime.phases.plugin import tried
from agentcompass.runtime.ports import StopSignal
from agentcompass.runtime.values import secrets
from agentcompass.runtime.values.references import on_worker

CLOSE_S: Final = 120.0
"""Removing a container or a large folder may take its time, but not for ever."""


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
    started = tried(where, limit, environment.start, plan)
    if isinstance(started, Failure):
        closed(environment)  # a half-started one may hold a container
        return started
    return environment


def closed(environment: Environment[BaseModel]) -> Failure | None:
    """End and remove the environment, also while the execution is being stopped."""
    limit = Limit.starting_now(CLOSE_S, StopSignal())
    result = tried("close", limit, environment.close)
    return result if isinstance(result, Failure) else None


def calmed(environment: Environment[BaseModel], limit: Limit, where: Where) -> Failure | None:
    """End everything that still runs inside: from here on only we change anything in it."""
    result = tried(where, limit, environment.quiesce)
    return result if isinstance(result, Failure) else None
