"""Waiting for a turn: whose time it is, what ends it, and what is given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentcompass.models.request import ModelSpec
from agentcompass.runtime.calling.interrupts import Interrupt, Stopped
from agentcompass.runtime.limits import Entry, ModelGate, Turns, endpoint_place, environment_place
from agentcompass.runtime.ports import Admitted, Bounds, LeaseKey, NotYet, Slot, StopSignal
from tests.support.turnstile import FakeLimits

KEY = LeaseKey("root", "run", 0, 1)
FOUR = Bounds(at_once=4)


class Stands:
    """Notes when time stands still."""

    def __init__(self) -> None:
        self.times = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.times += 1
        yield


class CutOff(FakeLimits):
    """Interrupts whoever asks a second time, and whoever gives back."""

    is_cut = False

    def enter(self, slot: Slot, bounds: Bounds, tokens: int = 0) -> Admitted | NotYet:
        if self.is_cut and not self.answers:
            raise Interrupt
        return super().enter(slot, bounds, tokens)

    def leave(self, slot: Slot, bounds: Bounds, tokens: int | None = None) -> None:
        if self.is_cut:
            raise Interrupt
        super().leave(slot, bounds, tokens)


def turns(limits: FakeLimits, stop: StopSignal | None = None, **more: float) -> Turns:
    return Turns(limits, KEY, "token", stop or StopSignal(), **more)  # type: ignore[arg-type]


def enter(waiting: Turns, still: Stands) -> Entry:
    return waiting.enter(waiting.slot("model:a"), FOUR, still)


def test_who_is_let_in_at_once_has_waited_for_nothing() -> None:
    still = Stands()

    entry = enter(turns(FakeLimits()), still)

    assert (entry.limit, entry.waited_s, still.times) == (4, 0.0, 0)


def test_time_stands_still_while_others_go_first() -> None:
    still = Stands()
    limits = FakeLimits([NotYet(0.01), NotYet(0.01)])

    entry = enter(turns(limits), still)

    assert still.times == 1
    assert entry.waited_s >= 0.02
    assert [what[0] for what in limits.did] == ["enter"] * 3


def test_a_stop_ends_the_waiting_and_gives_the_place_in_the_queue_back() -> None:
    stop = StopSignal()
    limits = FakeLimits([NotYet(3_600.0)])

    def stop_when_it_waits() -> None:
        limits.asked.wait()
        stop.request("cancelled")

    threading.Thread(target=stop_when_it_waits, daemon=True).start()
    with pytest.raises(Stopped):
        enter(turns(limits, stop), Stands())

    assert limits.did[-1] == ("leave", "model", 1, None)


def test_if_nobody_answers_it_waits_a_little_and_goes_on_without() -> None:
    limits = FakeLimits(is_reachable=False)
    waiting = turns(limits, _patience_s=0.95)

    assert enter(waiting, Stands()).limit is None
    asked = len(limits.did)
    began_s = time.monotonic()
    enter(waiting, Stands())

    assert asked == 2
    assert len(limits.did) == asked + 1  # the patience of an execution is spent once
    assert time.monotonic() - began_s < 30


class TestGate:
    def test_what_a_call_used_is_told_when_it_leaves(self) -> None:
        limits = FakeLimits()
        gate = ModelGate(turns(limits), "model:a", FOUR, Stands())

        gate.leave(gate.enter(100), 42)

        assert limits.did == [("enter", "model", 1), ("leave", "model", 1, 42)]

    def test_a_server_that_asks_for_very_much_does_not_stop_everybody_for_so_long(self) -> None:
        limits = FakeLimits()
        gate = ModelGate(turns(limits), "model:a", FOUR, Stands())

        gate.slow_down(gate.enter(1), 86_400.0)

        assert limits.did[-1] == ("slow_down", 1, 300.0)

    def test_a_busy_server_without_a_wish_is_only_told_to_an_adaptive_limit(self) -> None:
        limits = FakeLimits()
        fixed = ModelGate(turns(limits), "model:a", FOUR, Stands())
        adaptive = ModelGate(turns(limits), "model:a", Bounds(4, is_adaptive=True), Stands())

        fixed.slow_down(fixed.enter(1), None)
        adaptive.slow_down(adaptive.enter(1), None)

        assert [what for what in limits.did if what[0] == "slow_down"] == [("slow_down", 1, 0.0)]

    def test_what_an_interrupted_call_held_is_given_back_at_the_end(self) -> None:
        limits = FakeLimits()
        gate = ModelGate(turns(limits), "model:a", FOUR, Stands())
        turn = gate.enter(1)

        gate.close()
        gate.leave(turn, 5)

        assert limits.did == [("enter", "model", 1), ("leave", "model", 1, None)]

    def test_an_interrupt_anywhere_leaves_no_place_taken(self) -> None:
        waits, holds = CutOff([NotYet(0.0)]), CutOff()
        queued = ModelGate(turns(waits), "model:a", FOUR, Stands())
        inside = ModelGate(turns(holds), "model:a", FOUR, Stands())
        turn = inside.enter(1)
        waits.is_cut = holds.is_cut = True
        with pytest.raises(Interrupt):
            queued.enter(1)
        with pytest.raises(Interrupt):
            inside.leave(turn, 5)
        waits.is_cut = holds.is_cut = False

        queued.close()
        inside.close()

        assert waits.did[-1] == holds.did[-1] == ("leave", "model", 1, None)

    def test_nobody_calls_after_the_step_is_over(self) -> None:
        gate = ModelGate(turns(FakeLimits()), "model:a", FOUR, Stands())
        gate.close()

        with pytest.raises(RuntimeError, match="over"):
            gate.enter(1)

    def test_the_history_of_the_limit_holds_only_its_changes(self) -> None:
        limits = FakeLimits([Admitted(4), Admitted(4), Admitted(2), Admitted(3)])
        gate = ModelGate(turns(limits), "model:a", FOUR, Stands())
        for _ in range(4):
            gate.leave(gate.enter(1), None)

        assert gate.telemetry() == {"slot_wait_s": 0.0, "limit": [[1, 4], [3, 2], [4, 3]]}

    def test_without_a_number_there_is_no_history(self) -> None:
        limits = FakeLimits()
        gate = ModelGate(turns(limits), "model:a", Bounds(), Stands())
        gate.leave(gate.enter(1), None)

        assert gate.telemetry() == {"slot_wait_s": 0.0}


class TestPlaces:
    def place(self, url: str, model: str = "m") -> str:
        return endpoint_place(ModelSpec(id=model, base_url=url))

    @pytest.mark.parametrize(
        "url",
        [
            "https://HOST.example/v1",
            "https://host.example/v1/",
            "https://host.example:443/v1",
            "https://login:password@host.example/v1",
            "https://host.example/v1?key=secret",
        ],
    )
    def test_the_same_endpoint_is_one_place_however_it_is_written(self, url: str) -> None:
        assert self.place(url) == self.place("https://host.example/v1")

    @pytest.mark.parametrize(
        "url",
        [
            "http://host.example/v1",
            "https://other.example/v1",
            "https://host.example:8443/v1",
            "https://host.example/v2",
            "",
        ],
    )
    def test_other_endpoints_are_other_places(self, url: str) -> None:
        assert self.place(url) != self.place("https://host.example/v1")

    def test_another_model_is_another_place(self) -> None:
        url = "https://host.example/v1"

        assert self.place(url, "one") != self.place(url, "two")

    def test_no_part_of_a_url_can_be_read_in_a_name(self) -> None:
        name = self.place("https://login:hunter2@internal-host.example:bad/v1")

        assert name.startswith("model:")
        assert len(name) < 30
        assert "host" not in name

    def test_kinds_of_environments_are_places(self) -> None:
        assert environment_place("docker") != environment_place("bubblewrap")
