"""The call that plug-ins make: asks, waits, asks again, and classifies what is left of it.

| what happened | issue (contracts, §10) |
|---|---|
| 401, 402, 403, or a server that forbids another try | FATAL run `model_failed`, `PermanentFailure` |
| 408, 409, 425, 429, 5xx, no connection, a broken answer, after the last retry | FATAL run `model_failed` |
| no answer within the request's own time; asked once, since it would take as long again | ERROR run `model_timeout` |
| the same, and it was the attempt's deadline that ended it | ERROR run `run_timeout` |
| any other status (400, 404, 422, a redirect); asked once | ERROR run `run_failed` |
| an answer without text and tool calls | ERROR run `model_empty_output`, and the answer is kept |

Where the request limits its calls, each one passes the endpoint's gate first: the wait there is not the
agent's time, and a busy server (429, 503, 529) is left alone by everybody for as long as it asks.

A rejected request is an ERROR because it may be this prompt's own doing (too long, for one); it
leaves no answer behind, and a benchmark observes nothing where there is no answer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from agentcompass.errors import AttemptFailure, PermanentFailure
from agentcompass.llm.backoff import delay_s
from agentcompass.llm.base import CallFailed, CallPolicy, ChatRequest, Reply, Send
from agentcompass.llm.spending import cost_usd
from agentcompass.models.base import JsonObject
from agentcompass.models.context import CallGate, ModelEndpoint
from agentcompass.models.request import ModelPrices

_NAP_S: Final = 1.0
"""Longest uninterrupted sleep: an exception that ends this thread from outside arrives between
two of them, not inside one."""
_BUSY: Final = frozenset({429, 503, 529})
_CHARACTERS_PER_TOKEN: Final = 4
_MOST_TOKENS: Final = 10**9
_ANSWER_KEYS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")


@dataclass(slots=True)
class CallRecord:
    """What one call cost, whether or not it led anywhere."""

    started_at_s: float
    """Since the epoch."""
    finished_at_s: float = 0.0
    model_retries: int = 0
    backoff_s: float = 0.0
    slot_wait_s: float = 0.0
    """At the endpoint's gate; the deadline has moved by as much."""
    llm_infer_ms: float | None = None
    """Of the request that was answered, without the waits before it."""
    reply: Reply | None = None


@dataclass(frozen=True, slots=True)
class Clockwork:
    """Time and chance, so that a test can hold them still."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    """Seconds since the epoch."""
    sleep: Callable[[float], None] = time.sleep  # noqa: TID251 -- this is the wiring
    rng: Random = field(default_factory=Random)  # noqa: S311 -- jitter


class ChatClient:
    """Asks over one protocol; keeps nothing between calls, so threads may share it."""

    def __init__(self, send: Send, policy: CallPolicy, clockwork: Clockwork | None = None) -> None:
        self._send = send
        self._policy = policy
        self._clock = clockwork or Clockwork()

    def ask(
        self, endpoint: ModelEndpoint, request: ChatRequest, deadline_monotonic_s: float
    ) -> CallRecord:
        """Return the record of an answered call.

        Raises:
            AttemptFailure: as in the table above; its `partial` is the `CallRecord`, which the
                caller turns into a `RunResult`.
        """
        record = CallRecord(started_at_s=self._clock.now())
        try:
            record.reply = self._answered(endpoint, request, deadline_monotonic_s, record)
        except CallFailed as failure:
            is_late = self._clock.monotonic() >= deadline_monotonic_s + record.slot_wait_s
            raise _classified(failure, record, is_late=is_late) from failure
        finally:
            record.finished_at_s = self._clock.now()
        if record.reply.is_empty:
            reason = record.reply.finish_reason or "not given"
            raise AttemptFailure(
                "error",
                "run",
                "model_empty_output",
                f"the model answered without any text (finish reason: {reason})",
                partial=record,
            )
        return record

    def _answered(
        self, endpoint: ModelEndpoint, request: ChatRequest, deadline: float, record: CallRecord
    ) -> Reply:
        while True:
            try:
                return self._asked_once(endpoint, request, deadline, record)
            except CallFailed as failure:
                self._wait_after(failure, deadline + record.slot_wait_s, record)

    def _asked_once(
        self, endpoint: ModelEndpoint, request: ChatRequest, deadline: float, record: CallRecord
    ) -> Reply:
        if endpoint.gate is None:
            return self._sent(endpoint, request, deadline, record)
        return self._sent_in_turn(endpoint.gate, endpoint, request, deadline, record)

    def _sent_in_turn(
        self,
        gate: CallGate,
        endpoint: ModelEndpoint,
        request: ChatRequest,
        deadline: float,
        record: CallRecord,
    ) -> Reply:
        turn = gate.enter(expected_tokens(endpoint, request))
        record.slot_wait_s += turn.waited_s
        used: int | None = None
        try:
            reply = self._sent(endpoint, request, deadline + record.slot_wait_s, record)
            used = reply.tokens
        except CallFailed as failure:
            if failure.status in _BUSY:
                gate.slow_down(turn, failure.retry_after_s)
            raise
        finally:
            gate.leave(turn, used)
        return reply

    def _sent(
        self, endpoint: ModelEndpoint, request: ChatRequest, deadline: float, record: CallRecord
    ) -> Reply:
        started = self._clock.monotonic()
        left_s = deadline - started
        if left_s <= 0:
            raise CallFailed("timeout", "the attempt's deadline passed before the model answered")
        reply = self._send(endpoint, request, min(self._policy.request_timeout_s, left_s))
        record.llm_infer_ms = (self._clock.monotonic() - started) * 1_000
        return reply

    def _wait_after(self, failure: CallFailed, deadline: float, record: CallRecord) -> None:
        """Sleep until the next try, or raise the failure if there is to be none."""
        if failure.kind != "unavailable" or record.model_retries >= self._policy.max_model_retries:
            raise failure
        wait_s = delay_s(
            record.model_retries + 1, failure.retry_after_s, self._policy, self._clock.rng
        )
        out_of_budget = record.backoff_s + wait_s > self._policy.backoff_budget_s
        if out_of_budget or self._clock.monotonic() + wait_s >= deadline:
            raise failure
        record.model_retries += 1
        record.backoff_s += wait_s
        until = self._clock.monotonic() + wait_s
        while (rest_s := until - self._clock.monotonic()) > 0:
            self._clock.sleep(min(rest_s, _NAP_S))


def _classified(failure: CallFailed, record: CallRecord, *, is_late: bool) -> AttemptFailure:
    tries = record.model_retries + 1
    message = f"{failure} (asked {tries} times)" if tries > 1 else str(failure)
    match failure.kind:
        case "refused":
            return PermanentFailure("fatal", "run", "model_failed", message, record)
        case "unavailable":
            return AttemptFailure(
                "fatal", "run", "model_failed", message, record, failure.retry_after_s
            )
        case "timeout":
            code = "run_timeout" if is_late else "model_timeout"
            return AttemptFailure("error", "run", code, message, record)
        case "rejected":
            return AttemptFailure("error", "run", "run_failed", message, record)


def telemetry_of(record: CallRecord, prices: ModelPrices) -> Mapping[str, object]:
    """Return what goes under `meta.harness.telemetry`; what is not known is null, never zero."""
    reply = record.reply
    telemetry: JsonObject = {
        "model_calls": record.model_retries + 1,
        "model_retries": record.model_retries,
        "backoff_s": round(record.backoff_s, 3),
        "llm_infer_ms": record.llm_infer_ms,
    }
    if reply is not None:
        telemetry |= {
            "usage": reply.usage,
            "finish_reason": reply.finish_reason,
            "served_model": reply.served_model,
            "request_id": reply.request_id,
            "cost_usd": cost_usd(reply, prices),
        }
    return telemetry


def expected_tokens(endpoint: ModelEndpoint, request: ChatRequest) -> int:
    """Return a guess of what a call uses: its text, and the longest answer that it allows.

    Only for limits per minute, which learn the true number from the answer.
    """
    params = endpoint.spec.params
    longest = next((params[key] for key in _ANSWER_KEYS if key in params), 0)
    answer = max(0, min(longest, _MOST_TOKENS)) if isinstance(longest, int) else 0
    asked = len(json.dumps([request.messages, request.tools])) // _CHARACTERS_PER_TOKEN
    return asked + answer
