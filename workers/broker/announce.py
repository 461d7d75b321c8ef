"""Tells monitors what is about to be sent, so that they list attempts that still wait."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from workers.broker.wire import Envelope

logger = logging.getLogger(__name__)

_BATCH: Final = 500


class Announcer(Protocol):
    """Takes what is sent, in any number of pieces."""

    def __call__(self, envelopes: Iterable[Envelope], /) -> None: ...


@contextmanager
def announcements(app: Celery) -> Iterator[Announcer]:
    """Open an announcer; monitors are best effort, so what goes wrong in it ends it silently."""
    dispatcher: Any = None
    connection = app.connection_for_write()

    def announce(envelopes: Iterable[Envelope]) -> None:
        if dispatcher is None:
            return
        try:
            for envelope in envelopes:
                dispatcher.send(
                    "task-sent",
                    uuid=envelope.message_id,
                    root_id=envelope.group,
                    parent_id=None,
                    name=envelope.task,
                    args=envelope.shown,
                    kwargs=envelope.shown_more,
                    retries=0,
                    eta=None,
                    expires=None,
                    queue=envelope.queue,
                )
            dispatcher.flush()
        except (KombuError, RedisError, OSError):
            logger.info("monitors were not told of all attempts that wait")

    try:
        dispatcher = app.events.Dispatcher(
            connection, buffer_group=frozenset({"task"}), buffer_limit=_BATCH
        )
        yield announce
    finally:
        connection.release()
