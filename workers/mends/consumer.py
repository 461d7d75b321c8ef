"""Refuses what is not ours without ever logging what is in it, and tells monitors in batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from celery.worker.consumer import Consumer

MAX_BODY_BYTES: Final = 4_096
"""Ours are below 1 KiB; a larger one is not ours."""
EVENTS_S: Final = 0.25
"""How long events of attempts are collected before monitors hear of them all at once."""

logger = logging.getLogger(__name__)


class StrictConsumer(Consumer):
    """Celery's consumer prints up to 1 KiB of a message that it does not know; this one does not."""

    _next_flush_s = 0.0

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Return the function that takes each delivered message."""
        accept = super().create_task_handler(*args, **kwargs)

        def on_message(message: Any) -> None:
            if len(message.body or "") > MAX_BODY_BYTES:
                self._refuse(message, f"its body has {len(message.body)} bytes")
            else:
                accept(message)

        return on_message

    def on_unknown_message(self, body: object, message: Any) -> None:
        """No task message at all."""
        self._refuse(message, "it names no task")

    def on_unknown_task(self, body: object, message: Any, exc: object) -> None:
        """A task that no worker of ours has."""
        self._refuse(message, "its task is not one of ours")

    def on_invalid_task(self, body: object, message: Any, exc: Exception) -> None:
        """A task message whose parts do not fit."""
        self._refuse(message, f"it is malformed ({type(exc).__name__})")

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """A body that is not what its headers say."""
        self._refuse(message, f"it cannot be decoded ({type(exc).__name__})")

    def on_send_event_buffered(self) -> None:
        """Send what was collected a little later.

        Upstream sends in the next turn of the event loop, which makes one message of each event:
        a third of what the main process does. A time and not a flag, because a reconnect forgets
        timers.
        """
        now_s = time.monotonic()
        if self.hub and now_s >= self._next_flush_s:
            self._next_flush_s = now_s + EVENTS_S
            self.hub.call_later(EVENTS_S, self._flush_events)

    def shutdown(self) -> None:
        """Send what is left of the events, then end."""
        self._flush_events()
        super().shutdown()

    def _refuse(self, message: Any, why: str) -> None:
        logger.error("message refused: %s", why)
        message.reject_log_error(logger, self.connection_errors)
