"""Harness `none`: what a request without a harness gets."""

from __future__ import annotations

from typing_extensions import override

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.errors import PermanentFailure
from agentcompass.harnesses.base import Harness
from agentcompass.models.base import NoParams
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask


class NoHarness(Harness[NoParams]):
    """For benchmarks that bring their own agent; it never acts itself."""

    id = "none"

    @override
    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        """Refuse: a benchmark that reaches this has no agent of its own."""
        raise PermanentFailure(
            "fatal",
            "setup",
            "setup_failed",
            "this benchmark has no agent of its own: name one, for example --harness openai_chat",
        )
