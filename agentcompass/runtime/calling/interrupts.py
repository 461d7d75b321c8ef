"""The exceptions that end plug-in code from outside, and how long we are patient with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from agentcompass.runtime.ports import LOOK_S, StopReason, StopSignal


class Interrupt(BaseException):
    """Raised inside plug-in code when its time is over; `except Exception` does not catch it."""


class DeadlineReached(BaseException):
    """The call did not end in its time; what it may still return is ignored."""


class Stopped(BaseException):
    """The execution is ended from outside; its attempt gets no result from it."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason: StopReason = reason


REPEAT_S: Final = 1.0
"""Code that swallows every exception is interrupted again and again."""
GRACE_S: Final = 5.0
"""A thread that is stuck in C code for this long after its deadline is left alone."""


@dataclass(slots=True)
class Limit:
    """How long a call may take, and who may end it before. Waiting for a turn stops its clock."""

    until: float
    """On `time.monotonic()`."""
    seconds: float
    """The time that was given, for the message."""
    stop: StopSignal
    repeat_s: float = field(default=REPEAT_S, kw_only=True)
    grace_s: float = field(default=GRACE_S, kw_only=True)
    _waiting: int = field(default=0, init=False)
    _since: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @classmethod
    def starting_now(cls, seconds: float, stop: StopSignal) -> Limit:
        """Return the limit of a phase that begins now."""
        return cls(time.monotonic() + seconds, seconds, stop)

    def remaining_s(self) -> float:
        """Return the seconds that are left; negative after the end."""
        return self.until - (self._since if self._waiting else time.monotonic())

    @property
    def is_standing_still(self) -> bool:
        """True while somebody waits for a turn."""
        return self._waiting > 0

    def patience_s(self) -> float:
        """Return how long to sleep before looking at it again, at least 0."""
        return max(self.remaining_s(), LOOK_S if self._waiting else 0.0)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Take no time while the context is open; several threads of one call may be in it."""
        with self._lock:
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self.until += time.monotonic() - self._since

    def is_over(self) -> bool:
        """Return True if the time has passed or a stop was requested."""
        return self.stop.reason is not None or self.remaining_s() <= 0

    def check(self) -> None:
        """Raise `Stopped` or `DeadlineReached` if the limit is over."""
        if self.stop.reason is not None:
            raise Stopped(self.stop.reason)
        if self.remaining_s() <= 0:
            raise self.passed()

    def passed(self) -> BaseException:
        """Return what to raise for a call that was interrupted."""
        if self.stop.reason is not None:
            return Stopped(self.stop.reason)
        return DeadlineReached(f"no end within {self.seconds:g} s")
