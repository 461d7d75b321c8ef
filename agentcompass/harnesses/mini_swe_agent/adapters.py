"""The model and the environment that mini-swe-agent is given: our client and our handle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from agentcompass.environments.base import EnvironmentHandle
from agentcompass.errors import AttemptFailure
from agentcompass.harnesses.commands import cut, shell
from agentcompass.harnesses.mini_swe_agent.package import MiniSweAgent
from agentcompass.harnesses.own_time import OwnTime
from agentcompass.harnesses.recording import Observation, Recorder
from agentcompass.llm.base import ChatRequest
from agentcompass.llm.client import CallRecord
from agentcompass.llm.spending import cost_usd
from agentcompass.models.base import JsonObject
from agentcompass.models.request import ModelPrices

_SUBMIT: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_NOTED: Final = 16_000
"""Characters of a command's output in the trajectory."""
_UNAME: Final = ("system", "release", "version", "machine")

TIME_EXCEEDED: Final[Mapping[str, Any]] = {
    "role": "exit",
    "content": "TimeExceeded",
    "extra": {"exit_status": "TimeExceeded", "submission": ""},
}
"""The message that ends the agent when there is no time left for a further step."""

Ask = Callable[[ChatRequest], CallRecord]


class ModelAdapter:
    """Answers mini-swe-agent's queries through `ChatClient`, and notes every turn."""

    def __init__(
        self,
        package: MiniSweAgent,
        ask: Ask,
        recorder: Recorder,
        prices: ModelPrices,
        headers: Mapping[str, str],
    ) -> None:
        self.config = SimpleNamespace(model_name="")
        self._package = package
        self._ask = ask
        self._recorder = recorder
        self._prices = prices
        self._headers = headers
        self._heard = 0

    def query(self, messages: list[dict[str, Any]], **_: object) -> dict[str, Any]:
        """Return the model's next message, its commands in `extra`; raises `FormatError`."""
        told = tuple(_without_notes(message) for message in messages)
        said, self._heard = told[self._heard :], len(told) + 1
        record = self._answered(ChatRequest(told, (self._package.bash_tool,), self._headers), said)
        reply = record.reply
        if reply is None:
            raise AssertionError("an answered call without an answer")
        cost = cost_usd(reply, self._prices) or 0.0  # its own sum; ours says what is not known
        try:
            actions = self._package.parse_calls(
                [_as_object(call) for call in reply.tool_calls],
                format_error_template=self._package.settings["model"]["format_error_template"],
                template_kwargs={"finish_reason": reply.finish_reason},
            )
        except Exception as problem:
            self._heard -= 1  # the agent does not keep an answer that it could not read
            for message in getattr(problem, "messages", ())[:1]:
                message["extra"]["cost"] = cost
            raise
        return {**reply.message(), "extra": {"actions": actions, "cost": cost}}

    def _answered(self, request: ChatRequest, said: Sequence[JsonObject]) -> CallRecord:
        try:
            record = self._ask(request)
        except AttemptFailure as failure:
            if isinstance(failure.partial, CallRecord):
                self._recorder.asked(said, failure.partial)
                if failure.code == "model_empty_output":
                    return failure.partial  # the agent has an answer of its own to this
            if failure.code == "run_timeout":
                raise self._package.time_exceeded(TIME_EXCEEDED) from failure
            raise
        self._recorder.asked(said, record)
        return record

    def format_message(self, **message: Any) -> dict[str, Any]:
        """Return a message as it is."""
        return message

    def format_observation_messages(
        self,
        message: dict[str, Any],
        outputs: list[dict[str, Any]],
        template_vars: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return what the model is told of its commands."""
        return self._package.observations(
            actions=message["extra"]["actions"],
            outputs=outputs,
            observation_template=self._package.settings["model"]["observation_template"],
            template_vars=template_vars,
        )

    def get_template_vars(self, **_: object) -> dict[str, Any]:
        """Return nothing: no template speaks of the model."""
        return {}

    def serialize(self) -> dict[str, Any]:
        """Return nothing: the trajectory is kept in our own form."""
        return {}


class EnvironmentAdapter:
    """Runs mini-swe-agent's commands in the attempt's environment."""

    def __init__(
        self,
        package: MiniSweAgent,
        environment: EnvironmentHandle,
        recorder: Recorder,
        own_time: OwnTime,
        command_timeout_s: float,
    ) -> None:
        self.config = SimpleNamespace(timeout=command_timeout_s)
        self._package = package
        self._environment = environment
        self._recorder = recorder
        self._own_time = own_time
        self._variables = package.settings["environment"]["env"]
        uname = environment.exec("uname -s; uname -r; uname -v; uname -m").stdout.splitlines()
        self._place = dict(zip(_UNAME, [*uname, *[""] * len(_UNAME)], strict=False))

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        """Return the end of one command; raises `Submitted` if it was the last one."""
        limit_s = self._own_time.command_s(float(self.config.timeout))
        ended = self._environment.exec(
            shell(str(action["command"]), merged=True),
            cwd=cwd or None,
            env=self._variables,
            timeout_s=limit_s,
        )
        late = f"the command did not end within {limit_s:.0f} s" if ended.timed_out else ""
        returncode = -1 if ended.timed_out else ended.exit_code
        noted = f"[{late or f'exit code {returncode}'}]\n{cut(ended.stdout, _NOTED)}"
        call_id = str(action.get("tool_call_id", ""))
        self._recorder.observed(Observation(call_id, "bash", noted, ended.duration_s * 1_000))
        first, _, submission = ended.stdout.lstrip().partition("\n")
        if first.strip() == _SUBMIT and returncode == 0:
            notes = {"exit_status": "Submitted", "submission": submission}
            raise self._package.submitted({"role": "exit", "content": submission, "extra": notes})
        return {"output": ended.stdout, "returncode": returncode, "exception_info": late}

    def get_template_vars(self, **_: object) -> dict[str, Any]:
        """Return what its prompts tell of the machine; nothing of the worker's own."""
        return {**self._place, "cwd": self._environment.work_dir}

    def serialize(self) -> dict[str, Any]:
        """Return nothing: see `ModelAdapter.serialize`."""
        return {}


def _without_notes(message: dict[str, Any]) -> JsonObject:
    return {name: value for name, value in message.items() if name != "extra"}


def _as_object(call: JsonObject) -> SimpleNamespace:
    """Return a tool call with attributes, as the OpenAI SDK has them and the package expects them."""
    function = call.get("function")
    named = function if isinstance(function, dict) else {}
    return SimpleNamespace(
        id=call.get("id"),
        function=SimpleNamespace(name=named.get("name"), arguments=named.get("arguments")),
    )
