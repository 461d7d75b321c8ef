"""An agent that is paid for each try, whether it works or not."""

from __future__ import annotations

from typing import ClassVar

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.errors import AttemptFailure
from agentcompass.harnesses.base import Harness
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask
from tests.support.stubs import StubParams, behaviour

TOKENS = 100


class PaidAgent(Harness[StubParams]):
    """Uses 100 tokens of unknown price each time; `busy` fails in a way that deserves a retry."""

    id: ClassVar[str] = "paid"
    Params = StubParams

    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        done = RunResult(
            task_id=prepared.task_id,
            final_answer=prepared.ground_truth,
            telemetry={"usage": {"prompt_tokens": TOKENS}, "cost_usd": None},
            extra={"attempt": context.attempt},
        )
        if behaviour(self.params, "agent", prepared.task_id, context.attempt, "ok") == "busy":
            raise AttemptFailure("fatal", "run", "model_failed", "503", done)
        return done
