"""What `ChatClient` does at an endpoint's gate."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from agentcompass.errors import AttemptFailure
from agentcompass.llm.base import CallFailed, CallPolicy, ChatRequest, Reply
from agentcompass.llm.client import CallRecord, ChatClient, Clockwork, expected_tokens
from agentcompass.models.context import CallTurn, ModelEndpoint
from agentcompass.models.request import ModelSpec

REQUEST = ChatRequest(({"role": "user", "content": "x" * 400},))
GOOD = Reply("42", prompt_tokens=10, completion_tokens=2)


class GatedWorld:
    """A model behind a gate; the clock moves only by waiting, sleeping and asking."""

    def __init__(self, *answers: Reply | CallFailed, wait_s: float = 0.0) -> None:
        self.answers = list(answers)
        self.wait_s = wait_s
        self.now_s = 0.0
        self.did: list[object] = []
        self.timeouts: list[float] = []

    def enter(self, tokens: int) -> CallTurn:
        self.now_s += self.wait_s
        self.did.append("enter")
        return CallTurn(len(self.did), self.wait_s)

    def leave(self, turn: CallTurn, tokens: int | None) -> None:
        self.did.append(("leave", tokens))

    def slow_down(self, turn: CallTurn, retry_after_s: float | None) -> None:
        self.did.append(("slow_down", retry_after_s))

    def send(self, endpoint: ModelEndpoint, request: ChatRequest, timeout_s: float) -> Reply:
        self.timeouts.append(timeout_s)
        self.did.append("send")
        self.now_s += 1.0
        answer = self.answers.pop(0)
        if isinstance(answer, CallFailed):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def ask(self, deadline_s: float = 3_600.0) -> CallRecord:
        clock = Clockwork(lambda: self.now_s, lambda: self.now_s, self.sleep, Random(1))
        endpoint = ModelEndpoint(spec=ModelSpec(id="m"), gate=self)
        return ChatClient(self.send, CallPolicy(), clock).ask(endpoint, REQUEST, deadline_s)


def test_a_call_enters_before_it_is_sent_and_says_what_it_used_when_it_leaves() -> None:
    world = GatedWorld(GOOD)

    world.ask()

    assert world.did == ["enter", "send", ("leave", 12)]


def test_a_busy_server_is_told_to_the_gate_and_no_slot_is_held_while_the_call_waits() -> None:
    world = GatedWorld(CallFailed("unavailable", "busy", status=429, retry_after_s=2.0), GOOD)

    record = world.ask()

    busy = ["enter", "send", ("slow_down", 2.0), ("leave", None)]
    assert world.did == [*busy, "enter", "send", ("leave", 12)]
    assert record.model_retries == 1


def test_a_server_that_is_merely_broken_slows_nobody_down() -> None:
    world = GatedWorld(CallFailed("unavailable", "bad gateway", status=502), GOOD)

    world.ask()

    assert world.did == ["enter", "send", ("leave", None), "enter", "send", ("leave", 12)]


def test_a_failed_call_leaves_too() -> None:
    world = GatedWorld(CallFailed("rejected", "no", status=400))

    with pytest.raises(AttemptFailure):
        world.ask()

    assert world.did[-1] == ("leave", None)


def test_the_wait_at_the_gate_moves_the_deadline_of_the_call() -> None:
    world = GatedWorld(GOOD, wait_s=100.0)

    record = world.ask(deadline_s=10.0)

    assert record.slot_wait_s == 100.0
    assert world.timeouts == [10.0]


def test_without_a_gate_nothing_is_guessed_and_nothing_is_waited_for() -> None:
    world = GatedWorld(GOOD)
    clock = Clockwork(lambda: world.now_s, lambda: world.now_s, world.sleep, Random(1))

    record = ChatClient(world.send, CallPolicy(), clock).ask(
        ModelEndpoint(spec=ModelSpec(id="m")), REQUEST, 10.0
    )

    assert (world.did, record.slot_wait_s) == (["send"], 0.0)


def test_what_a_call_will_use_is_guessed_from_its_text_and_its_longest_answer() -> None:
    endpoint = ModelEndpoint(spec=ModelSpec(id="m"))
    with_bound = replace(endpoint, spec=ModelSpec(id="m", params={"max_tokens": 1_000}))

    guess = expected_tokens(endpoint, REQUEST)

    assert 100 <= guess <= 150
    assert expected_tokens(with_bound, REQUEST) == guess + 1_000
