"""A worker that cannot do a kind of attempt says so once and takes no more messages."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from celery.worker import state

from workers import clock
from workers.keeping.instance import Instance

logger = logging.getLogger(__name__)

REFUSED: Final = 78
"""Exit code: this worker is set up wrongly (EX_CONFIG); to start it again at once is of no use."""
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.05


class Refusal:
    """Carries the refusal of an execution, perhaps in a child, to the main process."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self.is_closing = False
        """Only in the main process."""
        self.consumer: Any = None
        """Celery's consumer, once it is ready; only in the main process."""

    def refuse(self, why: str) -> None:
        """Ask for the end of consuming, and wait for it.

        The message that goes back to its lane next would otherwise come right back to this worker.
        """
        self._instance.refuse(why)
        give_up_at = time.monotonic() + _PATIENCE_S
        while not self._instance.is_closed() and time.monotonic() < give_up_at:
            clock.sleep(_LOOK_S)

    def tick(self, _now_s: float) -> None:
        """In the main process: stop consuming as soon as somebody refused."""
        if self.is_closing or self.consumer is None:
            return
        why = self._instance.refused()
        if not why:
            return
        self.is_closing = True
        logger.error("takes no more messages, and ends when its attempts have ended: %s", why)
        self.consumer.call_soon(self._close)

    def _close(self) -> None:
        """Runs in the event loop, which is the only thread that may touch the consumer."""
        for queue in list(self.consumer.app.amqp.queues.consume_from):
            self.consumer.cancel_task_queue(queue)
        self._instance.close()
        state.should_stop = REFUSED
