"""Harness `mini_swe_agent`: the agent of that package, on our model client and our environment.

The loop, the prompts and the format of answers are the package's own (its settings for tool calls).
The model is asked through our client, in whichever protocol it speaks; commands run in the attempt's
environment; the trajectory is written in our form. Nothing is read from the user's home or written to it.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field
from typing_extensions import override

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.errors import AttemptFailure, EnvironmentFailed
from agentcompass.harnesses.base import Harness
from agentcompass.harnesses.command import prompt_of
from agentcompass.harnesses.mini_swe_agent.adapters import (
    TIME_EXCEEDED,
    Ask,
    EnvironmentAdapter,
    ModelAdapter,
)
from agentcompass.harnesses.mini_swe_agent.package import MiniSweAgent, load
from agentcompass.harnesses.own_time import OwnTime
from agentcompass.harnesses.prompts import identity_headers
from agentcompass.harnesses.recording import Recorder, stopped
from agentcompass.llm.base import CallPolicy, ChatRequest
from agentcompass.llm.client import CallRecord, ChatClient
from agentcompass.llm.protocols import send
from agentcompass.llm.spending import require_prices
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask

_LIMITS: Final = {
    "step_limit": "it reached its number of steps",
    "cost_limit": "it reached its cost",
    "time_limit": "its time ended",
    "malformed_calls": "too many answers in a row were malformed",
}


class MiniSweAgentParams(CallPolicy):
    """The agent's limits, and its prompts where they are not the package's own."""

    system_template: str | None = None
    instance_template: str | None = None
    """Jinja; `{{task}}` is the task."""
    max_steps: int = Field(default=100, ge=1)
    """How often the model is asked."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    """Needs the model's prices."""
    max_malformed: int = Field(default=3, ge=1)
    """Answers in a row without a command that can be tried."""
    command_timeout_s: float = Field(default=60.0, gt=0)
    margin_s: float = Field(default=10.0, ge=0)
    """So long before the deadline of the run the agent ends by itself, at most a tenth of its time."""
    identify: bool = False
    """Send the run, task and attempt along as `X-Agentcompass-*` headers, for a gateway's log."""


class MiniSweAgentHarness(Harness[MiniSweAgentParams]):
    """mini-swe-agent, the agent with nothing but a shell; needs the extra `mini-swe-agent`."""

    id = "mini_swe_agent"
    Params = MiniSweAgentParams

    def __init__(self, params: MiniSweAgentParams) -> None:
        super().__init__(params)
        self._client = ChatClient(send, params)

    @override
    def run_task(
        self,
        prepared: PreparedTask,
        environment: EnvironmentHandle,
        model: ModelEndpoint,
        context: AttemptContext,
    ) -> RunResult:
        """Run the agent to its end; a limit ends it with what it has done so far."""
        require_prices(self.params.max_cost_usd, model.spec.prices)
        package = load(context.work_dir / "mini-swe-agent")
        recorder = Recorder(model.spec.prices, (package.bash_tool,))
        own_time = OwnTime(context, self.params.margin_s)
        agent = package.agent(
            ModelAdapter(
                package,
                self._ask(package, model, context, own_time),
                recorder,
                model.spec.prices,
                identity_headers(context) if self.params.identify else {},
            ),
            EnvironmentAdapter(
                package, environment, recorder, own_time, self.params.command_timeout_s
            ),
            **self._settings(package),
        )
        try:
            end = agent.run(prompt_of(prepared))
        except (AttemptFailure, EnvironmentFailed) as failure:
            failure.partial = _result(prepared, recorder, package, "failed", None)
            raise
        answer = end.get("submission") or recorder.last_words()
        return _result(prepared, recorder, package, self._reason(end, recorder), answer)

    def _settings(self, package: MiniSweAgent) -> dict[str, Any]:
        own = package.settings["agent"]
        return {
            "system_template": self.params.system_template or own["system_template"],
            "instance_template": self.params.instance_template or own["instance_template"],
            "step_limit": self.params.max_steps,
            "cost_limit": self.params.max_cost_usd or 0.0,  # 0 means none there
            "max_consecutive_format_errors": self.params.max_malformed,
        }

    def _ask(
        self,
        package: MiniSweAgent,
        model: ModelEndpoint,
        context: AttemptContext,
        own_time: OwnTime,
    ) -> Ask:
        def ask(request: ChatRequest) -> CallRecord:
            context.progress("asking the model")
            if own_time.left_s() <= 0:
                raise package.time_exceeded(TIME_EXCEEDED)
            return self._client.ask(model, request, own_time.deadline_monotonic_s)

        return ask

    def _reason(self, end: dict[str, Any], recorder: Recorder) -> str:
        match end.get("exit_status"):
            case "Submitted":
                return "submitted"
            case "TimeExceeded":
                return "time_limit"
            case "RepeatedFormatError":
                return "malformed_calls"
            case _:
                return "step_limit" if recorder.steps >= self.params.max_steps else "cost_limit"


def _result(
    prepared: PreparedTask,
    recorder: Recorder,
    package: MiniSweAgent,
    reason: str,
    answer: str | None,
) -> RunResult:
    limit = _LIMITS.get(reason)
    return RunResult(
        task_id=prepared.task_id,
        final_answer=answer,
        ground_truth=prepared.ground_truth,
        trajectory=recorder.trajectory(),
        issues=(stopped(reason, limit),) if limit else (),
        telemetry={
            **recorder.telemetry(),
            "ended": reason,
            "mini_swe_agent": package.version,
        },
    )
