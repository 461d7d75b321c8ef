"""The watchdog's decisions, one rule at a time; the hostile world is in tests/property."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentcompass.coordinator.ports import AttemptKey, Holdings
from agentcompass.coordinator.watching.decide import (
    Command,
    Finalize,
    Finished,
    Look,
    Pause,
    Resend,
    Stopped,
    Watchdog,
    WatchPolicy,
)

POLICY = WatchPolicy(lease_s=30, resend_limit_s=100, finalize_after_s=10)
A: AttemptKey = (0, 1)
B: AttemptKey = (40, 1)
NOTHING = Holdings(known=True)
FORGOTTEN = Holdings(known=False)


def a_look(at_s: float = 0, *unfinished: AttemptKey, holdings: Holdings | None = NOTHING) -> Look:
    return Look(at_s, is_open=True, unfinished=unfinished, is_final=False, holdings=holdings)


def seen(*looks: Look) -> list[list[Command]]:
    dog = Watchdog(POLICY)
    return [dog.handle(look) for look in looks]


class TestLost:
    @pytest.mark.parametrize("where", ["leased", "parked", "queued"])
    def test_what_somebody_or_something_holds_is_not_lost(self, where: str) -> None:
        held = replace(NOTHING, **{where: frozenset({A})})  # type: ignore[arg-type]

        assert seen(a_look(0, A, B, holdings=held)) == [[Resend((B,))]]

    def test_a_broker_that_was_not_asked_proves_nothing(self) -> None:
        assert seen(a_look(0, A, holdings=None)) == [[]]

    def test_the_same_attempt_is_sent_again_with_growing_patience(self) -> None:
        looks = [a_look(at_s, A) for at_s in (0, 29, 30, 89, 90, 189, 190, 289, 290)]

        sent = [look.at_s for look, commands in zip(looks, seen(*looks), strict=True) if commands]

        assert sent == [0, 30, 90, 190, 290]  # 30, 60, then never more than 100 s

    def test_live_holders_get_one_lease_to_claim_at_a_broker_that_forgot(self) -> None:
        looks = [a_look(at_s, A, holdings=FORGOTTEN) for at_s in (0, 29, 30)]

        assert seen(*looks) == [[], [], [Resend((A,))]]

    def test_a_broker_that_knew_it_again_meanwhile_is_waited_for_anew(self) -> None:
        paused = replace(
            a_look(10, A), is_open=False, holdings=replace(NOTHING, leased=frozenset({A}))
        )
        forgotten = [a_look(at_s, A, holdings=FORGOTTEN) for at_s in (0, 31, 60)]

        assert seen(forgotten[0], paused, *forgotten[1:])[2:] == [[], []]


class TestTheEnd:
    def test_a_covered_complete_run_is_finished(self) -> None:
        assert seen(replace(a_look(), is_final=True)) == [[Finished()]]

    def test_the_callback_is_given_time_and_then_less_and_less_often_helped(self) -> None:
        looks = [a_look(at_s) for at_s in (0, 9, 10, 29, 30, 69, 70)]

        made = [look.at_s for look, commands in zip(looks, seen(*looks), strict=True) if commands]

        assert made == [10, 30, 70]

    def test_a_complete_run_is_finalized_although_it_was_paused(self) -> None:
        closed = [replace(a_look(at_s), is_open=False) for at_s in (0, 10)]

        assert seen(*closed) == [[], [Finalize()]]

    def test_a_rerun_begins_the_waiting_again(self) -> None:
        assert seen(a_look(0), a_look(5, A, holdings=None), a_look(11), a_look(21))[3] == [
            Finalize()
        ]


class TestClosed:
    def test_what_executes_is_waited_for(self) -> None:
        holding = replace(NOTHING, leased=frozenset({A}))

        looks = [replace(a_look(0, A, holdings=h), is_open=False) for h in (holding, None, NOTHING)]

        assert seen(*looks) == [[], [], [Stopped()]]


class TestErrorPolicy:
    @pytest.mark.parametrize(
        ("failed", "limit", "is_reached"), [(2, 3, False), (3, 3, True), (9, None, False)]
    )
    def test_the_run_is_paused_when_the_limit_is_reached(
        self, *, failed: int, limit: int | None, is_reached: bool
    ) -> None:
        look = replace(a_look(0, A, holdings=None), failed_tasks=failed, max_failed_tasks=limit)

        (commands,) = seen(look)

        assert any(isinstance(each, Pause) for each in commands) == is_reached
