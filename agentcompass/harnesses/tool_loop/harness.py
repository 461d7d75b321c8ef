"""Harness `tool_loop`: the model calls tools in the attempt's environment until it submits.

A call that is malformed is answered with what is wrong about it. A limit that is reached ends the
agent with what it has done so far: its files are collected and judged like any others, and a warning
says which limit it was. So does the deadline, a little before the runtime would enforce it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import Field
from typing_extensions import override

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.errors import AttemptFailure, EnvironmentFailed, PermanentFailure
from agentcompass.harnesses.base import Harness
from agentcompass.harnesses.own_time import OwnTime
from agentcompass.harnesses.prompts import identity_headers, messages_of
from agentcompass.harnesses.recording import Observation, Recorder, stopped
from agentcompass.harnesses.tool_loop.conversation import (
    FIRST_CHARS_PER_TOKEN,
    chars_per_token,
    fitted,
)
from agentcompass.harnesses.tool_loop.tools import ALL_TOOLS, Outcome, Toolbox, ToolName
from agentcompass.llm.base import CallPolicy, ChatRequest, Reply
from agentcompass.llm.client import CallRecord, ChatClient
from agentcompass.llm.protocols import send
from agentcompass.llm.spending import require_prices
from agentcompass.models.base import JsonObject
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask

SYSTEM_PROMPT: Final = (
    "You solve a task by calling tools. They act in a working directory that holds the files of the "
    "task. Look at what is there, do what is asked, and check that it works. Then call submit; nothing "
    "can be changed afterwards."
)
_CUT_OFF: Final = (
    "Your last message was cut off at its length limit before you called a tool. Say less, and call "
    "one tool at a time."
)
_SAID_NOTHING: Final = "You said nothing and called no tool. Go on, or call submit."


class ToolLoopParams(CallPolicy):
    """The agent's tools and limits; each limit holds by itself."""

    system_prompt: str | None = Field(default=None)
    """Instead of the task's own, or of ours if the task has none."""
    tools: tuple[ToolName, ...] = ALL_TOOLS
    """Beside `submit`, which there always is."""
    max_steps: int = Field(default=50, ge=1)
    """How often the model is asked."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Of all calls together, prompts and answers."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    """Needs the model's prices."""
    max_malformed: int = Field(default=5, ge=1)
    """Answers in a row without one call that can be tried."""
    context_tokens: int | None = Field(default=None, ge=1_000)
    """When a conversation would be longer, its oldest tool results are left out."""
    command_timeout_s: float = Field(default=120.0, gt=0)
    output_limit: int = Field(default=16_000, ge=200)
    """Characters of a tool's result that the model sees: the beginning and the end."""
    margin_s: float = Field(default=10.0, ge=0)
    """So long before the deadline of the run the agent ends by itself, at most a tenth of its time."""
    identify: bool = False
    """Send the run, task and attempt along as `X-Agentcompass-*` headers, for a gateway's log."""


class ToolLoop(Harness[ToolLoopParams]):
    """A small agent with a shell and file tools, in whatever environment the task runs."""

    id = "tool_loop"
    Params = ToolLoopParams

    def __init__(self, params: ToolLoopParams) -> None:
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
        """Let the model act until it submits, answers without a tool, or meets a limit."""
        require_prices(self.params.max_cost_usd, model.spec.prices)
        toolbox = Toolbox(environment, context, self.params.tools, self.params.output_limit)
        agent = _Agent(self.params, self._client, model, context, toolbox)
        agent.hears(messages_of(prepared, self._system_prompt(prepared)))
        try:
            end = agent.act()
        except (AttemptFailure, EnvironmentFailed) as failure:
            failure.partial = _result(prepared, agent, _End("failed"))
            raise
        return _result(prepared, agent, end)

    def _system_prompt(self, prepared: PreparedTask) -> str | None:
        if self.params.system_prompt is not None:
            return self.params.system_prompt
        own = prepared.input.system_prompt
        has_own = own or any(m.get("role") == "system" for m in prepared.input.messages)
        return None if has_own else SYSTEM_PROMPT


@dataclass(frozen=True, slots=True)
class _End:
    """Why the agent stopped."""

    reason: str
    answer: str | None = None
    limit: str = ""
    """What to say of the limit that stopped it; "" if none did."""


class _Agent:
    """One attempt's conversation."""

    def __init__(
        self,
        params: ToolLoopParams,
        client: ChatClient,
        model: ModelEndpoint,
        context: AttemptContext,
        toolbox: Toolbox,
    ) -> None:
        self._params = params
        self._client = client
        self._model = model
        self._context = context
        self._toolbox = toolbox
        self._headers = identity_headers(context) if params.identify else {}
        self._tools = toolbox.definitions
        self._messages: tuple[JsonObject, ...] = ()
        self._unheard: list[JsonObject] = []
        self._chars_per_token = FIRST_CHARS_PER_TOKEN
        self._malformed = 0
        self._calls = 0
        self._own_time = OwnTime(context, params.margin_s)
        self.recorder = Recorder(model.spec.prices, self._tools)

    def hears(self, messages: tuple[JsonObject, ...]) -> None:
        """Add what the model is told next."""
        self._messages += messages
        self._unheard += messages

    def act(self) -> _End:
        """Ask and do, until there is a reason to stop."""
        while True:
            end = self._limit_reached()
            if end is not None:
                return end
            self._context.progress(f"step {self.recorder.steps + 1}")
            try:
                reply = self._asked()
            except AttemptFailure as failure:
                if failure.code != "run_timeout":
                    raise
                return _End("time_limit", limit="its time ended while the model was answering")
            end = self._follow(reply)
            if end is not None:
                return end

    def _limit_reached(self) -> _End | None:
        params, recorder = self._params, self.recorder
        if recorder.steps >= params.max_steps:
            return _End("step_limit", limit=f"it made {recorder.steps} steps")
        if self._own_time.left_s() <= 0:
            return _End("time_limit", limit="its time ended")
        return self._budget_spent() if recorder.steps else None

    def _budget_spent(self) -> _End | None:
        params, recorder = self._params, self.recorder
        if params.max_tokens is not None:
            spent = _known("max_tokens", recorder.tokens())
            if spent >= params.max_tokens:
                return _End("token_limit", limit=f"it used {spent:.0f} tokens")
        if params.max_cost_usd is not None:
            cost = _known("max_cost_usd", recorder.cost_usd())
            if cost >= params.max_cost_usd:
                return _End("cost_limit", limit=f"it cost {cost:.4f} US dollars")
        return None

    def _asked(self) -> Reply:
        self._fit()
        request = ChatRequest(self._messages, self._tools, self._headers)
        said, self._unheard = self._unheard, []
        try:
            record = self._client.ask(self._model, request, self._own_time.deadline_monotonic_s)
        except AttemptFailure as failure:
            if not isinstance(failure.partial, CallRecord):
                raise
            record = failure.partial
            self.recorder.asked(said, record)
            if (
                failure.code != "model_empty_output"
                or self._malformed + 1 >= self._params.max_malformed
            ):
                raise
        else:
            self.recorder.asked(said, record)
        if record.reply is None:
            raise AssertionError("an answered call without an answer")
        if record.reply.prompt_tokens:
            self._chars_per_token = chars_per_token(request.messages, record.reply.prompt_tokens)
        return record.reply

    def _fit(self) -> None:
        budget = self._params.context_tokens
        if budget is None:
            return
        found = fitted(self._messages, budget * self._chars_per_token)
        # What is too long in spite of all goes out all the same: the server's answer says more than
        # our estimate.
        self._messages = found if found is not None else self._messages

    def _follow(self, reply: Reply) -> _End | None:
        """Do what the model asks for; return why there is no next step."""
        self._messages += (reply.message(),) if not reply.is_empty else ()
        if not reply.tool_calls:
            if reply.finish_reason != "length" and not reply.is_empty:
                return _End("answered", reply.content)
            return self._try_again(_SAID_NOTHING if reply.is_empty else _CUT_OFF)
        outcomes: list[Outcome] = []
        for call in reply.tool_calls:
            outcomes.append(self._done(call))
            if outcomes[-1].submitted is not None:
                return _End("submitted", outcomes[-1].submitted or reply.content)
        if not all(outcome.is_malformed for outcome in outcomes):
            self._malformed = 0
            return None
        return self._one_more_malformed()

    def _done(self, call: JsonObject) -> Outcome:
        self._calls += 1
        limit_s = self._own_time.command_s(self._params.command_timeout_s)
        outcome = self._toolbox.call(call, self._calls, limit_s)
        self.recorder.observed(
            Observation(outcome.id, outcome.name, outcome.text, outcome.env_action_ms)
        )
        self.hears(({"role": "tool", "tool_call_id": outcome.id, "content": outcome.text},))
        return outcome

    def _try_again(self, told: str) -> _End | None:
        self.hears(({"role": "user", "content": told},))
        return self._one_more_malformed()

    def _one_more_malformed(self) -> _End | None:
        self._malformed += 1
        if self._malformed < self._params.max_malformed:
            return None
        return _End("malformed_calls", limit=f"{self._malformed} answers in a row were malformed")


def _known(name: str, spent: float | None) -> float:
    if spent is None:
        raise PermanentFailure(
            "fatal",
            "run",
            "model_failed",
            f"harness.{name} cannot be kept: the model does not say how many tokens it used",
        )
    return spent


def _result(prepared: PreparedTask, agent: _Agent, end: _End) -> RunResult:
    return RunResult(
        task_id=prepared.task_id,
        final_answer=end.answer,
        ground_truth=prepared.ground_truth,
        trajectory=agent.recorder.trajectory(),
        issues=(stopped(end.reason, end.limit),) if end.limit else (),
        telemetry={**agent.recorder.telemetry(), "ended": end.reason},
    )
