"""Celery tasks: parse the message, call one function, obey what it returns.

A header returns its constant only after its attempt's end was seen on disk, and never raises into
its chord: what cannot be done now is parked, what cannot be done here goes back, what is refused
or stale is dropped. That alone keeps a callback from firing early, or never.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from celery import Celery
from celery.exceptions import Ignore, Reject

from agentcompass.models.message import AttemptMessage, FinalizeMessage
from agentcompass.runtime.ports import Delivered, Done, HandBack, Park, Stale
from workers.broker.client import patiently
from workers.broker.keys import RunKeys, keys_of, lease_key
from workers.broker.parking import Parking
from workers.broker.signing import SEAL_HEADER, Signer
from workers.broker.wire import SINCE_HEADER, TAG_HEADER, Envelope
from workers.limits.redis_limits import RedisLimits
from workers.settings import CHORD_EXPIRES_S, TASK_ATTEMPT, TASK_FINALIZE
from workers.urls import MESSAGE_KEY_VARIABLE

logger = logging.getLogger(__name__)

COUNTED: Final = 1
"""What every header returns; the callback looks at the directory, never at this."""
ELSEWHERE_S: Final = 5.0
"""What this worker cannot do comes back after so long, to whoever is free then."""
RETRY_S: Final = (5.0, 60.0)
"""A delivery that broke is tried again after as long as it has been broken, within these bounds."""
SHARE_CACHE_S: Final = 60.0
"""So long a share may hide what another machine wrote."""
FINALIZE_S: Final = (5.0, 300.0)

_Message = TypeVar("_Message", AttemptMessage, FinalizeMessage)


@dataclass(frozen=True, slots=True)
class Complete:
    """The run's report is on disk."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """Something is missing."""

    why: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The run is in a results folder that this worker does not have."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the tasks need of their process."""

    deliver: Callable[[AttemptMessage], Delivered]
    finalize: Callable[[FinalizeMessage], Complete | NotYet | Elsewhere]
    is_held: Callable[[RunKeys], bool]
    """Whether the broker still holds anything of a run."""
    parking: Parking
    refuse: Callable[[str], None]
    """Makes this worker stop taking messages; returns when it has."""
    now: Callable[[], float] = time.time
    limits: RedisLimits | None = None
    signer: Signer | None = None
    """With a key: refuses what no coordinator with the same key has sent."""


def register(app: Celery, parts: Parts) -> None:
    """Add the two tasks to an app."""

    @app.task(name=TASK_ATTEMPT, bind=True)
    def attempt(self: Any, *args: object, **kwargs: object) -> int:
        return run_attempt(self.request, args, kwargs, parts)

    @app.task(name=TASK_FINALIZE, bind=True)
    def finalize(self: Any, *args: object, **kwargs: object) -> int:
        return run_finalize(self.request, args, kwargs, parts)


def run_attempt(request: Any, args: Sequence[Any], kwargs: object, parts: Parts) -> int:
    """Deliver one attempt.

    Args:
        request: Celery's context of the delivery.

    Raises:
        Ignore: parked or dropped; neither chord nor slot notices.
        Reject: handed back to its lane, or refused.
    """
    message = _attempt_message(args, kwargs)
    _refuse_strangers(request, args, parts.signer)
    own_lease = keys_of(message.root, message.run).lease(message.offset, message.attempt)
    delivery = _Delivery(request, parts, own_lease)
    match _delivered(message, delivery):
        case Done(wakes=wakes):
            if wakes:
                patiently(lambda: parts.parking.wake([lease_key(key) for key in wakes]))
            return COUNTED
        case Park(due_s=due_s, reason="run_is_full", at_most=at_most):
            delivery.park(due_s)
            patiently(lambda: _wait(message, request.id, at_most, parts.limits))
        case Park(due_s=due_s, reason=reason):
            delivery.park(due_s, while_held=reason == "held")
        case HandBack() as back:
            raise delivery.hand_back(back)
        case Stale(reason=reason):
            logger.info("%s dropped: %s", request.id, reason or "no longer wanted")
        case _Broken():
            since_s = delivery.since_s()
            due_s = _between(RETRY_S, parts.now() - since_s)
            delivery.park(due_s, since_s=since_s)
    raise Ignore


def _wait(
    message: AttemptMessage, message_id: str, at_most: int, limits: RedisLimits | None
) -> None:
    if limits is not None:
        run = keys_of(message.root, message.run)
        limits.wait(run, message_id, leg=message.leg, at_most=at_most)


def run_finalize(request: Any, args: Sequence[Any], kwargs: object, parts: Parts) -> int:
    """Look at one run and complete it, or come back later; raises as `run_attempt`."""
    message = _finalize_message(args, kwargs)
    _refuse_strangers(request, args, parts.signer)
    keys = keys_of(message.root, message.run)
    delivery = _Delivery(request, parts, f"{keys.prefix}finalize")
    match _finalized(message, parts):
        case Complete():
            return COUNTED
        case Elsewhere():
            since_s = delivery.since_s()
            waited_s = parts.now() - since_s
            if waited_s < CHORD_EXPIRES_S:
                delivery.park(_between(FINALIZE_S, waited_s / 4), since_s=since_s)
        case NotYet(why=why):
            since_s = delivery.since_s()
            waited_s = parts.now() - since_s
            if waited_s < SHARE_CACHE_S or parts.is_held(keys):
                delivery.park(_between(FINALIZE_S, waited_s / 4), since_s=since_s)
            else:
                logger.warning("%s stays incomplete, nothing is on its way: %s", message.run, why)
    raise Ignore


def _attempt_message(args: Sequence[Any], kwargs: object) -> AttemptMessage:
    message = None
    with suppress(ValueError):  # pydantic's is one; its text quotes the message
        run, root, leg, offset, number = args
        message = AttemptMessage(run=run, root=root, leg=leg, offset=offset, attempt=number)
    return _accepted(message, kwargs)


def _finalize_message(args: Sequence[Any], kwargs: object) -> FinalizeMessage:
    message = None
    with suppress(ValueError):
        run, root, leg = args
        message = FinalizeMessage(run=run, root=root, leg=leg)
    return _accepted(message, kwargs)


def _accepted(message: _Message | None, kwargs: object) -> _Message:
    """Return a message that is ours; the error about any other says nothing of what is in it."""
    if message is None or kwargs:
        logger.error("message refused: its arguments are not ours")
        raise Reject("not ours", requeue=False)
    return message


def _refuse_strangers(request: Any, args: Sequence[Any], signer: Signer | None) -> None:
    if signer is None:
        return
    if not signer.is_sealed(request.get(SEAL_HEADER), request.task, request.id, args):
        logger.error(
            "message refused: no coordinator with our %s has signed it", MESSAGE_KEY_VARIABLE
        )
        raise Reject("not signed", requeue=False)


def _delivered(message: AttemptMessage, delivery: _Delivery) -> Delivered | _Broken:
    try:
        return delivery.parts.deliver(message)
    # Law 6: whatever escapes, MemoryError and SystemExit included, must reach neither the chord
    # nor the worker's main process, which a MemoryError would end.
    except BaseException:
        logger.exception("delivery of %s broke; it is tried again", delivery.request.id)
        return _Broken()


def _finalized(message: FinalizeMessage, parts: Parts) -> Complete | NotYet | Elsewhere:
    try:
        return parts.finalize(message)
    # As above: a report that cannot be written must not take the worker with it.
    except BaseException as error:
        logger.exception("finalizing %s broke", message.run)
        return NotYet(type(error).__name__)


def _between(bounds: tuple[float, float], value_s: float) -> float:
    low, high = bounds
    return min(high, max(low, value_s))


@dataclass(frozen=True, slots=True)
class _Broken:
    """Something of ours raised; the attempt has no result from this delivery."""


@dataclass(frozen=True, slots=True)
class _Delivery:
    """One message as it was delivered."""

    request: Any
    parts: Parts
    own_lease: str
    """Whoever waits here is woken when this key is released."""

    def since_s(self) -> float:
        """Return when this message first could not be dealt with: now, or what it carries."""
        carried = self.request.get(SINCE_HEADER)
        return carried if isinstance(carried, float) else self.parts.now()

    def hand_back(self, back: HandBack) -> Reject | Ignore:
        """Give the message to other workers; returns what the task raises.

        To the lane at once if this worker goes down or has stopped taking messages; otherwise it
        could get it again in the next millisecond, for ever, so the message waits a little outside.
        """
        if back.stops_consuming:
            self.parts.refuse(back.message or back.reason)
        elif back.reason != "handed_back":
            logger.warning("%s handed back: %s", self.request.id, back.message or back.reason)
            self.park(ELSEWHERE_S)
            return Ignore()
        return Reject(back.reason, requeue=True)

    def park(self, due_s: float, *, while_held: bool = False, since_s: float | None = None) -> None:
        """Keep the message outside of every slot and chord until it is due."""
        request = self.request
        envelope = Envelope(
            task=request.task,
            message_id=request.id,
            args=request.args,
            queue=request.delivery_info["routing_key"],
            shown=request.argsrepr or "",
            shown_more=request.kwargsrepr or "{}",
            group=request.group,
            chord=request.chord,
            tag=request.get(TAG_HEADER) or "",
            seal=request.get(SEAL_HEADER) or "",
            since_s=since_s,
        )
        parking, lease = self.parts.parking, self.own_lease
        patiently(lambda: parking.park(envelope, lease, due_s, while_held=while_held))
