"""What an agent said and did, turn by turn, as a trajectory and as telemetry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agentcompass.llm.base import Reply
from agentcompass.llm.client import CallRecord
from agentcompass.llm.spending import cost_usd
from agentcompass.models.base import JsonObject
from agentcompass.models.issue import Issue
from agentcompass.models.request import ModelPrices
from agentcompass.models.trajectory import AssistantContent, Step, StepMetric, Trajectory


@dataclass(frozen=True, slots=True)
class Observation:
    """What one action came to, as the model is told."""

    tool_call_id: str
    name: str
    content: str
    env_action_ms: float | None = None
    """None if the environment had no part in it."""


@dataclass(slots=True)
class _Turn:
    said: Sequence[JsonObject]
    """The messages that were new to the model."""
    record: CallRecord
    observations: list[Observation] = field(default_factory=list)


def stopped(reason: str, limit: str) -> Issue:
    """Return the warning that an agent ended at a limit; its work counts like any other."""
    text = f"the agent was stopped: {limit}"
    return Issue(severity="warning", phase="run", code=reason, message=text)


class Recorder:
    """Of one attempt; whatever happens to the agent, what it did so far can be told."""

    def __init__(self, prices: ModelPrices, tools: tuple[JsonObject, ...]) -> None:
        self._prices = prices
        self._tools = tools
        self._turns: list[_Turn] = []

    @property
    def steps(self) -> int:
        """How often the model was asked."""
        return len(self._turns)

    def asked(self, said: Sequence[JsonObject], record: CallRecord) -> None:
        """Note a call, answered or not, and the messages that were new in it."""
        self._turns.append(_Turn(tuple(said), record))

    def observed(self, observation: Observation) -> None:
        """Note what an action of the last answer came to."""
        self._turns[-1].observations.append(observation)

    def tokens(self) -> int | None:
        """Return all tokens so far; None if an answer did not say."""
        sides = (self._input_tokens(), self._output_tokens())
        return _total(sides)

    def cost_usd(self) -> float | None:
        """Return the cost so far; None if that of an answer is not known."""
        costs = [cost_usd(reply, self._prices) for reply in self._replies()]
        known = [usd for usd in costs if usd is not None]
        return sum(known) if len(known) == len(costs) else None

    def last_words(self) -> str | None:
        """Return the text of the last answer; None if there is none."""
        replies = self._replies()
        return replies[-1].content or None if replies else None

    def trajectory(self) -> Trajectory:
        """Return the turns as steps."""
        steps = tuple(_step(number, turn) for number, turn in enumerate(self._turns, start=1))
        if not steps:
            return Trajectory()
        first = steps[0].model_copy(update={"tools": self._tools})
        return Trajectory(
            steps=(first, *steps[1:]),
            started_at=steps[0].started_at,
            finished_at=steps[-1].finished_at,
        )

    def telemetry(self) -> JsonObject:
        """Return the sums over all turns; what an answer did not say makes its sum null."""
        records = [turn.record for turn in self._turns]
        replies = self._replies()
        done = [each for turn in self._turns for each in turn.observations]
        infer = [record.llm_infer_ms for record in records if record.llm_infer_ms is not None]
        acted = [each.env_action_ms for each in done if each.env_action_ms is not None]
        return {
            "steps": len(records),
            "tool_calls": dict(Counter(each.name for each in done)),
            "model_calls": sum(record.model_retries + 1 for record in records),
            "model_retries": sum(record.model_retries for record in records),
            "backoff_s": round(sum(record.backoff_s for record in records), 3),
            "slot_wait_s": round(sum(record.slot_wait_s for record in records), 3),
            "llm_infer_ms": sum(infer) if infer else None,
            "env_action_ms": sum(acted) if acted else None,
            "usage": {
                "input_tokens": self._input_tokens(),
                "output_tokens": self._output_tokens(),
                "cached_input_tokens": _total(reply.cached_tokens for reply in replies),
                "reasoning_tokens": _total(reply.reasoning_tokens for reply in replies),
            },
            "cost_usd": self.cost_usd() if replies else None,
            "finish_reason": replies[-1].finish_reason if replies else None,
            "served_model": replies[-1].served_model if replies else None,
        }

    def _replies(self) -> list[Reply]:
        return [turn.record.reply for turn in self._turns if turn.record.reply is not None]

    def _input_tokens(self) -> int | None:
        return _total(reply.prompt_tokens for reply in self._replies())

    def _output_tokens(self) -> int | None:
        return _total(reply.completion_tokens for reply in self._replies())


def _total(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    known = [count for count in found if count is not None]
    return sum(known) if found and len(known) == len(found) else None


def _step(number: int, turn: _Turn) -> Step:
    record, reply = turn.record, turn.record.reply
    system = [m.get("content") for m in turn.said if m.get("role") == "system"]
    users = [m.get("content") for m in turn.said if m.get("role") == "user"]
    acted = [o.env_action_ms for o in turn.observations if o.env_action_ms is not None]
    step = Step(
        step_id=number,
        system_prompt=system[0] if system else "",
        user_content=users[0] if len(users) == 1 else list(users),
        observation=[
            {"tool_call_id": each.tool_call_id, "name": each.name, "content": each.content}
            for each in turn.observations
        ],
        metric=StepMetric(
            prompt_tokens_len=reply.prompt_tokens if reply else None,
            completion_tokens_len=reply.completion_tokens if reply else None,
            llm_infer_ms=record.llm_infer_ms,
            env_action_ms=sum(acted) if acted else None,
            stop_reason=reply.finish_reason if reply else None,
        ),
        started_at=datetime.fromtimestamp(record.started_at_s, UTC),
        finished_at=datetime.fromtimestamp(record.finished_at_s, UTC),
    )
    if reply is None:
        return step
    said = AssistantContent(
        content=reply.content, reasoning_content=reply.reasoning, tool_calls=reply.tool_calls
    )
    return step.model_copy(update={"assistant_content": said})
