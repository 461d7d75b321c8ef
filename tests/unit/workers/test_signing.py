from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from celery.exceptions import Ignore, Reject

from agentcompass.coordinator.ports import PendingAttempt, RunAddress
from agentcompass.errors import UsageError
from agentcompass.runtime.ports import Done, Park
from agentcompass.store.root import ResultsRoot
from tests.unit.workers.conftest import ParkingLot, a_request
from workers import tasks
from workers.broker.keys import RunKeys
from workers.broker.signing import SEAL_HEADER, Signer, signer_from
from workers.broker.wire import envelope_of_signature, signature_of
from workers.dispatch import callback_of, headers

SIGNER = Signer("a key of this cluster")
ROOT = "ab" * 4
ARGS = ["run-1", ROOT, 1, 0, 1]
ID = "run-1:task-1-abc:a1:l1"


def parts(lot: ParkingLot, delivered: Done | Park) -> tasks.Parts:
    return tasks.Parts(
        deliver=lambda message: delivered,
        finalize=lambda message: tasks.Complete(),
        is_held=lambda keys: False,
        parking=lot,  # type: ignore[arg-type]  # a double
        refuse=lambda why: None,
        signer=SIGNER,
    )


def test_a_signed_attempt_is_executed(lot: ParkingLot) -> None:
    request = a_request(**{SEAL_HEADER: SIGNER.seal("eval.attempt", ID, ARGS)})

    assert tasks.run_attempt(request, ARGS, {}, parts(lot, Done())) == 1


@pytest.mark.parametrize(
    "seal",
    [
        None,
        "",
        7,
        "é",
        "0" * 32,
        Signer("a key of another one").seal("eval.attempt", ID, ARGS),
        SIGNER.seal("eval.finalize", ID, ARGS),
        SIGNER.seal("eval.attempt", "another id", ARGS),
        SIGNER.seal("eval.attempt", ID, [*ARGS[:4], 2]),
    ],
)
def test_what_is_not_signed_by_our_coordinator_is_refused_without_its_content(
    lot: ParkingLot, caplog: pytest.LogCaptureFixture, seal: object
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(Reject) as refused:
        tasks.run_attempt(a_request(**{SEAL_HEADER: seal}), ARGS, {}, parts(lot, Done()))

    assert refused.value.requeue is False
    assert "AGENTCOMPASS_MESSAGE_KEY" in caplog.text
    assert "run-1" not in caplog.text


def test_a_finalizer_must_be_signed_too(lot: ParkingLot) -> None:
    request = a_request(**{SEAL_HEADER: SIGNER.seal("eval.attempt", ID, ARGS[:3])})
    request.task = "eval.finalize"

    with pytest.raises(Reject):
        tasks.run_finalize(request, ARGS[:3], {}, parts(lot, Done()))


def test_a_parked_message_keeps_its_seal(lot: ParkingLot) -> None:
    seal = SIGNER.seal("eval.attempt", ID, ARGS)

    with pytest.raises(Ignore):
        tasks.run_attempt(a_request(**{SEAL_HEADER: seal}), ARGS, {}, parts(lot, Park(5.0, "held")))

    ((parked, *_),) = lot.parked
    assert (parked.seal, seal in parked.encode()) == (seal, True)


def test_headers_and_the_callback_inside_of_them_are_signed() -> None:
    run = RunAddress(ResultsRoot(Path("/results"), "ab" * 16), "run-1", Path(), "default", 1, "m")

    (sent,) = headers(run, 1, [PendingAttempt(0, 1, "t")], "default.lane0", SIGNER)

    assert SIGNER.is_sealed(sent.seal, sent.task, sent.message_id, list(sent.args))
    callback = envelope_of_signature(sent.chord or {})
    assert SIGNER.is_sealed(callback.seal, callback.task, callback.message_id, callback.args)
    own = callback_of(RunKeys(ROOT, "run-1"), 1, SIGNER)
    assert callback == replace(own, args=list(own.args))


def test_without_a_key_nothing_is_signed_and_nothing_refused(lot: ParkingLot) -> None:
    callback = callback_of(RunKeys(ROOT, "run-1"), 1)
    unsigned = replace(parts(lot, Done()), signer=signer_from({"AGENTCOMPASS_MESSAGE_KEY": ""}))

    assert "headers" not in signature_of(callback)["options"]  # type: ignore[operator]
    assert tasks.run_attempt(a_request(), ARGS, {}, unsigned) == 1


def test_a_key_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="shorter than 16 bytes") as caught:
        signer_from({"AGENTCOMPASS_MESSAGE_KEY": "short"})

    assert "'short'" not in str(caught.value)
