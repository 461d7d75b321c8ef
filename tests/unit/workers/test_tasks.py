from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from celery.exceptions import Ignore, Reject

from agentcompass.runtime.ports import Delivered, Done, HandBack, LeaseKey, Park, Stale
from tests.unit.workers.conftest import ParkingLot, a_request
from workers import tasks
from workers.broker.keys import RunKeys, lease_key

ROOT = "ab" * 4
ARGS = ["run-1", ROOT, 1, 0, 1]
OWN_LEASE = RunKeys(ROOT, "run-1").lease(0, 1)


def parts(
    lot: ParkingLot,
    *,
    deliver: Callable[[Any], Delivered] = lambda message: Done(),
    finalize: Callable[[Any], Any] = lambda message: tasks.Complete(),
    held: bool = False,
    refused: list[str] | None = None,
    now: float = 1_000.0,
) -> tasks.Parts:
    said = refused if refused is not None else []
    return tasks.Parts(deliver, finalize, lambda keys: held, lot, said.append, lambda: now)  # type: ignore[arg-type]


def answering(delivered: Delivered) -> Callable[[Any], Delivered]:
    return lambda message: delivered


def breaking(error: BaseException) -> Callable[[Any], Any]:
    def break_down(message: object) -> Any:
        raise error

    return break_down


def test_a_header_returns_a_constant_once_its_end_was_seen(lot: ParkingLot) -> None:
    assert tasks.run_attempt(a_request(), ARGS, {}, parts(lot)) == 1
    assert lot.parked == []


def test_what_waited_for_an_attempt_is_woken_by_its_end(lot: ParkingLot) -> None:
    following = LeaseKey(ROOT, "run-1", 0, 2)

    tasks.run_attempt(
        a_request(), ARGS, {}, parts(lot, deliver=answering(Done(wakes=(following,))))
    )

    assert lot.woken == [lease_key(following)]


@pytest.mark.parametrize(
    ("reason", "while_held"), [("held", True), ("earlier_attempt", False), ("lease_lost", False)]
)
def test_a_parked_delivery_is_ignored_and_keeps_its_message(
    lot: ParkingLot, reason: Any, *, while_held: bool
) -> None:
    with pytest.raises(Ignore):
        tasks.run_attempt(a_request(), ARGS, {}, parts(lot, deliver=answering(Park(7.0, reason))))

    envelope, lease, due_s, held = lot.parked[0]
    assert (lease, due_s, held) == (OWN_LEASE, 7.0, while_held)
    assert envelope.message_id == "run-1:task-1-abc:a1:l1"
    assert (envelope.queue, envelope.group, envelope.chord) == (
        "default.lane3",
        "run-1.l1",
        {"task": "eval.finalize"},
    )


def test_a_delivery_of_a_full_run_waits_in_its_queue_once_it_is_parked(lot: ParkingLot) -> None:
    waits: list[tuple[object, ...]] = []

    class Queue:
        def wait(self, run: RunKeys, message_id: str, *, leg: int, at_most: int) -> None:
            waits.append((run.ref, message_id, leg, at_most, len(lot.parked)))

    full = replace(
        parts(lot, deliver=answering(Park(60.0, "run_is_full", 5))),
        limits=Queue(),  # type: ignore[arg-type]
    )
    with pytest.raises(Ignore):
        tasks.run_attempt(a_request(), ARGS, {}, full)

    assert lot.parked[0][1:] == (OWN_LEASE, 60.0, False)
    assert waits == [("run-1", "run-1:task-1-abc:a1:l1", 1, 5, 1)]


def test_a_stale_message_is_dropped_without_being_counted(lot: ParkingLot) -> None:
    with pytest.raises(Ignore):
        tasks.run_attempt(a_request(), ARGS, {}, parts(lot, deliver=answering(Stale("closed"))))
    assert lot.parked == []


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(1), KeyboardInterrupt(), OSError(28)])
def test_whatever_escapes_from_a_delivery_is_tried_again_later(
    lot: ParkingLot, error: BaseException
) -> None:
    with pytest.raises(Ignore):
        tasks.run_attempt(a_request(), ARGS, {}, parts(lot, deliver=breaking(error)))

    envelope, _, due_s, _ = lot.parked[0]
    assert (due_s, envelope.since_s) == (5.0, 1_000.0)


def test_a_delivery_that_stays_broken_is_tried_ever_less_often(lot: ParkingLot) -> None:
    broken = breaking(OSError(28))

    for since_s in (980.0, 100.0):
        request = a_request(compass_since=since_s)
        with pytest.raises(Ignore):
            tasks.run_attempt(request, ARGS, {}, parts(lot, deliver=broken))

    assert [(due_s, envelope.since_s) for envelope, _, due_s, _ in lot.parked] == [
        (20.0, 980.0),
        (60.0, 100.0),
    ]


def test_a_worker_that_goes_down_gives_its_message_back_at_once(lot: ParkingLot) -> None:
    with pytest.raises(Reject) as raised:
        tasks.run_attempt(
            a_request(), ARGS, {}, parts(lot, deliver=answering(HandBack("handed_back")))
        )
    assert raised.value.requeue is True
    assert lot.parked == []


def test_a_worker_that_can_do_nothing_of_its_kind_stops_before_it_gives_back(
    lot: ParkingLot,
) -> None:
    refused: list[str] = []
    back = HandBack("other_root", "another folder", stops_consuming=True)

    with pytest.raises(Reject) as raised:
        tasks.run_attempt(
            a_request(), ARGS, {}, parts(lot, deliver=answering(back), refused=refused)
        )
    assert (raised.value.requeue, refused) == (True, ["another folder"])


def test_what_cannot_be_done_here_now_waits_outside_for_anybody(lot: ParkingLot) -> None:
    with pytest.raises(Ignore):
        tasks.run_attempt(
            a_request(), ARGS, {}, parts(lot, deliver=answering(HandBack("not_recordable")))
        )
    assert lot.parked[0][2] == tasks.ELSEWHERE_S


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ([], {}),
        (["run-1", ROOT, 1, 0], {}),
        (["../secret", ROOT, 1, 0, 1], {}),
        (["run-1", "XYZ", 1, 0, 1], {}),
        (["run-1", ROOT, "1", 0, 1], {}),
        (["run-1", ROOT, 1, -1, 1], {}),
        (["run-1", ROOT, 1, 0, 0], {}),
        (ARGS, {"extra": "secret"}),
    ],
)
def test_a_message_that_is_not_ours_is_refused_without_quoting_it(
    lot: ParkingLot, args: list[Any], kwargs: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Reject) as raised:
        tasks.run_attempt(a_request(), args, kwargs, parts(lot))

    assert raised.value.requeue is False
    assert raised.value.__context__ is None
    assert "secret" not in caplog.text + str(raised.value)


def test_a_complete_run_ends_its_finalizer(lot: ParkingLot) -> None:
    assert tasks.run_finalize(a_request(), ["run-1", ROOT, 1], {}, parts(lot)) == 1


@pytest.mark.parametrize(
    ("since_s", "held", "due_s"),
    [(None, False, 5.0), (950.0, False, 12.5), (800.0, True, 50.0), (-9_000.0, True, 300.0)],
)
def test_an_incomplete_run_is_looked_at_again(
    lot: ParkingLot, since_s: float | None, *, held: bool, due_s: float
) -> None:
    request = a_request(**({"compass_since": since_s} if since_s is not None else {}))
    missing = parts(lot, finalize=lambda message: tasks.NotYet("2 missing"), held=held)

    with pytest.raises(Ignore):
        tasks.run_finalize(request, ["run-1", ROOT, 1], {}, missing)

    assert lot.parked[0][2] == due_s
    assert lot.parked[0][0].since_s == (since_s if since_s is not None else 1_000.0)


def test_an_incomplete_run_of_which_nothing_is_left_is_for_the_watchdog(lot: ParkingLot) -> None:
    request = a_request(compass_since=900.0)

    with pytest.raises(Ignore):
        tasks.run_finalize(
            request,
            ["run-1", ROOT, 1],
            {},
            parts(lot, finalize=lambda message: tasks.NotYet("2 missing")),
        )
    assert lot.parked == []


def test_a_finalizer_that_breaks_comes_back(lot: ParkingLot) -> None:
    with pytest.raises(Ignore):
        tasks.run_finalize(
            a_request(), ["run-1", ROOT, 1], {}, parts(lot, finalize=breaking(MemoryError()))
        )
    assert len(lot.parked) == 1


def test_a_finalizer_with_strange_arguments_is_refused(lot: ParkingLot) -> None:
    with pytest.raises(Reject):
        tasks.run_finalize(a_request(), ["run-1", ROOT], {}, parts(lot))


@pytest.mark.parametrize(("waited_s", "due_s"), [(0.0, 5.0), (400.0, 100.0), (90_000.0, 300.0)])
def test_a_callback_of_another_folder_is_left_to_others_ever_less_often(
    lot: ParkingLot, waited_s: float, due_s: float
) -> None:
    request = a_request(compass_since=10_000_000.0 - waited_s)
    own = parts(lot, finalize=lambda message: tasks.Elsewhere(), now=10_000_000.0)

    with pytest.raises(Ignore):
        tasks.run_finalize(request, ["run-1", ROOT, 1], {}, own)

    assert [(parked[2], parked[0].since_s) for parked in lot.parked] == [
        (due_s, 10_000_000.0 - waited_s)
    ]


def test_a_callback_that_nobody_wanted_for_a_month_is_dropped(lot: ParkingLot) -> None:
    request = a_request(compass_since=0.0)
    own = parts(lot, finalize=lambda message: tasks.Elsewhere(), now=31 * 86_400.0)

    with pytest.raises(Ignore):
        tasks.run_finalize(request, ["run-1", ROOT, 1], {}, own)

    assert lot.parked == []
