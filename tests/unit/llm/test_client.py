from __future__ import annotations

from random import Random

import pytest

from agentcompass.errors import AttemptFailure, PermanentFailure
from agentcompass.llm.base import CallFailed, CallPolicy, ChatRequest, FailureKind, Reply
from agentcompass.llm.client import (
    CallRecord,
    ChatClient,
    Clockwork,
    telemetry_of,
)
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import ModelPrices, ModelSpec

REQUEST = ChatRequest(({"role": "user", "content": "6 x 7?"},))
ENDPOINT = ModelEndpoint(spec=ModelSpec(id="m"))
GOOD = Reply("42", prompt_tokens=10, completion_tokens=2)


class World:
    """A model that answers from a list, and a clock that only sleeping and asking moves."""

    def __init__(self, *answers: Reply | CallFailed, takes_s: float = 1.0) -> None:
        self.answers = list(answers)
        self.takes_s = takes_s
        self.now_s = 0.0
        self.timeouts: list[float] = []
        self.naps: list[float] = []

    def send(self, endpoint: ModelEndpoint, request: ChatRequest, timeout_s: float) -> Reply:
        self.timeouts.append(timeout_s)
        self.now_s += min(self.takes_s, timeout_s)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, CallFailed):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now_s += seconds

    def ask(self, policy: CallPolicy | None = None, *, deadline_s: float = 3_600.0) -> CallRecord:
        clock = Clockwork(lambda: self.now_s, lambda: self.now_s, self.sleep, Random(1))
        return ChatClient(self.send, policy or CallPolicy(), clock).ask(
            ENDPOINT, REQUEST, deadline_s
        )

    def failure(
        self, policy: CallPolicy | None = None, *, deadline_s: float = 3_600.0
    ) -> AttemptFailure:
        with pytest.raises(AttemptFailure) as caught:
            self.ask(policy, deadline_s=deadline_s)
        return caught.value


def busy(retry_after_s: float | None = None) -> CallFailed:
    return CallFailed("unavailable", "status 429", status=429, retry_after_s=retry_after_s)


def test_two_rate_limits_and_then_an_answer_are_a_normal_result_with_two_retries() -> None:
    record = World(busy(1.0), busy(1.0), GOOD).ask()

    assert record.reply == GOOD
    assert record.model_retries == 2
    assert record.backoff_s >= 2.0
    assert record.llm_infer_ms == pytest.approx(1_000)  # without the waits


def test_a_rate_limit_for_ever_ends_after_the_configured_number_of_calls() -> None:
    world = World(busy())

    failure = world.failure(CallPolicy(max_model_retries=3))

    assert len(world.timeouts) == 4
    assert (failure.severity, failure.phase, failure.code) == ("fatal", "run", "model_failed")
    assert "asked 4 times" in failure.message


def test_all_waits_together_stay_within_their_budget() -> None:
    world = World(busy(), takes_s=0.0)

    world.failure(CallPolicy(max_model_retries=1_000, backoff_budget_s=100.0))

    assert world.now_s <= 100.0


def test_nobody_waits_for_a_server_beyond_the_budget_and_its_wish_is_passed_on() -> None:
    world = World(busy(86_400.0))

    failure = world.failure()

    assert len(world.timeouts) == 1
    assert failure.retry_after_s == 86_400.0


def test_nobody_waits_past_the_deadline() -> None:
    world = World(busy(30.0))

    failure = world.failure(deadline_s=20.0)

    assert world.now_s == 1.0
    assert failure.code == "model_failed"


def test_a_request_gets_no_more_time_than_the_deadline_leaves() -> None:
    world = World(busy(1.0), GOOD)

    world.ask(CallPolicy(request_timeout_s=50.0), deadline_s=40.0)

    assert world.timeouts[0] == 40.0
    assert world.timeouts[1] < 38.0


@pytest.mark.parametrize(
    ("kind", "severity", "code"),
    [
        ("refused", "fatal", "model_failed"),
        ("timeout", "error", "model_timeout"),
        ("rejected", "error", "run_failed"),
    ],
)
def test_what_cannot_get_better_is_asked_once(kind: FailureKind, severity: str, code: str) -> None:
    world = World(CallFailed(kind, "no"), GOOD)

    failure = world.failure()

    assert len(world.timeouts) == 1
    assert (failure.severity, failure.code) == (severity, code)


def test_only_a_refusal_is_permanent() -> None:
    assert isinstance(World(CallFailed("refused", "no")).failure(), PermanentFailure)
    assert not isinstance(World(busy()).failure(), PermanentFailure)


def test_a_timeout_that_the_deadline_made_is_the_runs_timeout() -> None:
    world = World(CallFailed("timeout", "silence"), takes_s=60.0)

    assert world.failure(deadline_s=5.0).code == "run_timeout"


def test_after_the_deadline_nothing_is_sent() -> None:
    world = World(GOOD)

    assert world.failure(deadline_s=0.0).code == "run_timeout"
    assert world.timeouts == []


def test_an_empty_answer_is_an_error_that_keeps_the_answer() -> None:
    failure = World(Reply("  \n", finish_reason="length")).failure()

    assert (failure.severity, failure.code) == ("error", "model_empty_output")
    assert "length" in failure.message
    assert isinstance(failure.partial, CallRecord)


def test_telemetry_tells_the_retries_of_a_failed_call_too() -> None:
    failure = World(busy()).failure(CallPolicy(max_model_retries=2))

    assert isinstance(failure.partial, CallRecord)
    telemetry = telemetry_of(failure.partial, ModelPrices())
    assert (telemetry["model_retries"], telemetry["model_calls"]) == (2, 3)


def test_sleep_is_cut_into_naps_so_that_an_end_from_outside_arrives() -> None:
    world = World(busy(5.0), GOOD)

    world.ask()

    assert max(world.naps) <= 1.0
    assert sum(world.naps) >= 5.0
