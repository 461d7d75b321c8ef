"""Threads that repeat one thing for as long as their process lives."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

_COMPLAIN_EVERY_S: Final = 60.0


class Repeating(threading.Thread):
    """Calls `tick(time.monotonic())` at once, then every `every_s` seconds until it is told to stop."""

    def __init__(self, name: str, every_s: float, tick: Callable[[float], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._every_s = every_s
        self._tick = tick
        self._end = threading.Event()
        self._complained_s = -_COMPLAIN_EVERY_S

    def run(self) -> None:
        """Tick; an error is logged at most once a minute and never ends the thread."""
        while not self._end.is_set():
            try:
                self._tick(time.monotonic())
            # The worker's life hangs on this thread: without it every attempt is executed twice.
            except Exception:
                now_s = time.monotonic()
                if now_s >= self._complained_s + _COMPLAIN_EVERY_S:
                    self._complained_s = now_s
                    logger.exception("%s failed; it goes on", self.name)
            self._end.wait(self._every_s)

    def end(self, patience_s: float) -> None:
        """Stop after the current tick; wait for the end of that one, but no longer than so."""
        self._end.set()
        if self.is_alive():
            self.join(patience_s)
