"""What a harness promises (contracts, §9)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.models.base import NoParams
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask

ParamsT = TypeVar("ParamsT", bound=BaseModel)


class Harness(Generic[ParamsT]):
    """The scaffold that lets a model act. Built once per process; keeps no state of a task."""

    id: ClassVar[str]
    Params: ClassVar[type[BaseModel]] = NoParams

    def __init__(self, params: ParamsT) -> None:
        self.params = params

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult | Awaitable[RunResult]:
        """Return what the agent did; raise `AttemptFailure` for a classified failure.

        Any other exception becomes ERROR run `run_failed`, but `EnvironmentFailed`, which is FATAL.
        That and an `AttemptFailure` may carry what the agent had done by then, in `partial`.
        """
        raise NotImplementedError
