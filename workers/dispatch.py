"""The broker as coordinators and watchdogs know it: implements `agentcompass.coordinator.ports.Queue`.

A run is one chord whose headers are built by hand: the group's size first, then the messages in
batches with deterministic ids. Compared with Celery's canvas this is many times cheaper, needs no
subscription per attempt, and can be done again after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

from redis.exceptions import RedisError

from agentcompass.coordinator.ports import Holdings, LiveWorker, PendingAttempt, RunAddress
from agentcompass.errors import BrokerUnreachable
from workers.app import make_app
from workers.broker.announce import announcements
from workers.broker.client import answers_within, connect
from workers.broker.holdings import holdings_of
from workers.broker.keys import RunKeys
from workers.broker.lanes import least_loaded
from workers.broker.presence import Presence
from workers.broker.signing import Signer
from workers.broker.wire import Envelope, signature_of
from workers.settings import CHORD_EXPIRES_S, CONTROL_QUEUE, TASK_ATTEMPT, TASK_FINALIZE
from workers.urls import checked, masked

_BATCH: Final = 500
_SHOWN_BYTES: Final = 120


class RedisQueue:
    """One broker, by its URL. Opens connections when it needs them."""

    def __init__(self, broker_url: str, signer: Signer | None = None) -> None:
        """UsageError if the URL is none that our workers can use."""
        self._signer = signer
        self._url = checked(broker_url)
        self._client = connect(self._url)
        self._app = make_app(self._url)

    def ping(self, timeout_s: float) -> None:
        """Return if the broker answers in time."""
        with self._reaching():
            answers_within(self._url, timeout_s)

    def dispatch(
        self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt], count: int
    ) -> None:
        """Send one chord; see the protocol."""
        keys = _keys_of(run)
        with self._reaching():
            lane = least_loaded(self._client, run.queue, seed=keys.digest)
            self._client.set(keys.known, lane, ex=CHORD_EXPIRES_S)
            if count:
                self._open_chord(keys.group(leg), count)
                self._push(run, leg, pending, lane)
        if not count:
            self.finalize(run, leg)

    def resend(self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt]) -> None:
        """Send single headers again, first in line: they are late already."""
        keys = _keys_of(run)
        with self._reaching():
            lane = self._lane_of(run, keys)
            self._client.set(keys.known, lane, ex=CHORD_EXPIRES_S)
            self._push(run, leg, pending, lane, at_the_front=True)

    def finalize(self, run: RunAddress, leg: int) -> None:
        """Send the chord's callback by itself."""
        with self._reaching():
            envelope = callback_of(_keys_of(run), leg, self._signer)
            self._client.lpush(envelope.queue, envelope.encode())

    def holdings(self, run: RunAddress) -> Holdings:
        """List what the broker holds of this run."""
        with self._reaching():
            return holdings_of(self._client, _keys_of(run), run.queue)

    def workers(self, queue: str) -> Sequence[LiveWorker]:
        """List who serves a queue; see `presence`."""
        with self._reaching():
            return Presence(self._client).living(queue)

    def nudge(self, run: RunAddress) -> None:
        """Raise the run's counter; keepers look at it with every tick."""
        with self._reaching():
            name = _keys_of(run).nudges
            pipe = self._client.pipeline()
            pipe.incr(name)
            pipe.expire(name, CHORD_EXPIRES_S)
            pipe.execute()

    def close(self) -> None:
        """Close our connections; the next call opens them again."""
        self._client.close()

    def _open_chord(self, group: str, count: int) -> None:
        """Set the size before any header can return, and forget an earlier call for this leg."""
        done, size, members = (
            self._app.backend.get_key_for_group(group, suffix) for suffix in (".c", ".s", ".d")
        )
        pipe = self._client.pipeline()
        pipe.delete(done, members)
        pipe.set(size, count, ex=CHORD_EXPIRES_S)
        pipe.execute()

    def _push(
        self,
        run: RunAddress,
        leg: int,
        pending: Iterable[PendingAttempt],
        lane: str,
        *,
        at_the_front: bool = False,
    ) -> None:
        push = self._client.rpush if at_the_front else self._client.lpush
        with announcements(self._app) as announce:
            for batch in _batches(headers(run, leg, pending, lane, self._signer)):
                announce(batch)
                push(lane, *(envelope.encode() for envelope in batch))

    def _lane_of(self, run: RunAddress, keys: RunKeys) -> str:
        remembered = self._client.get(keys.known)
        if isinstance(remembered, bytes):
            return remembered.decode()
        return least_loaded(self._client, run.queue, seed=keys.digest)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, OSError) as error:
            reason = masked(str(error)) or type(error).__name__
            raise BrokerUnreachable(masked(self._url), reason) from error


def headers(
    run: RunAddress,
    leg: int,
    pending: Iterable[PendingAttempt],
    lane: str,
    signer: Signer | None = None,
) -> Iterator[Envelope]:
    """Yield the message of each attempt, in the given order."""
    keys = _keys_of(run)
    group = keys.group(leg)
    chord = signature_of(callback_of(keys, leg, signer))
    shown_more = f"run={keys.run_id} model={_cut(run.model)}"
    for one in pending:
        message_id = keys.message_id(one.task_id, one.attempt, leg)
        args = (run.ref, run.root.digest, leg, one.offset, one.attempt)
        yield Envelope(
            task=TASK_ATTEMPT,
            message_id=message_id,
            args=args,
            queue=lane,
            shown=f"{_cut(one.task_id)} attempt {one.attempt}/{run.k}",
            shown_more=shown_more,
            group=group,
            chord=chord,
            tag=keys.tag(one.offset, one.attempt),
            seal=signer.seal(TASK_ATTEMPT, message_id, args) if signer else "",
        )


def callback_of(keys: RunKeys, leg: int, signer: Signer | None = None) -> Envelope:
    """Return the finalizer of a leg; its id is deterministic too."""
    message_id = f"{keys.group(leg)}.finalize"
    args = (keys.ref, keys.root_digest, leg)
    return Envelope(
        task=TASK_FINALIZE,
        message_id=message_id,
        args=args,
        queue=CONTROL_QUEUE,
        shown=f"run={keys.ref}",
        seal=signer.seal(TASK_FINALIZE, message_id, args) if signer else "",
    )


def _cut(text: str) -> str:
    """Cut what people see, so that the longest name makes no large message."""
    return text.encode()[:_SHOWN_BYTES].decode(errors="ignore")


def _keys_of(run: RunAddress) -> RunKeys:
    return RunKeys(run.root.digest, run.ref)


def _batches(envelopes: Iterator[Envelope]) -> Iterator[Sequence[Envelope]]:
    while batch := list(islice(envelopes, _BATCH)):
        yield batch
