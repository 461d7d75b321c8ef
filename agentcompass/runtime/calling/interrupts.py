"""The exceptions that end plug-in code from outside, and how long we are patient with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from agentcompass.runtime.ports import StopReason, StopSignal


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


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a call may take, and who may end it before."""

    until: float
    """On `time.monotonic()`."""
    seconds: float
    """The time that was given, for the message."""
    stop: StopSignal
    repeat_s: float = field(default=REPEAT_S, kw_only=True)
    grace_s: float = field(default=GRACE_S, kw_only=True)

    @classmethod
    def starting_now(cls, seconds: float, stop: StopSignal) -> Limit:
        """Return the limit of a phase that begins now."""
        return cls(time.monotonic() + seconds, seconds, stop)

    def remaining_s(self) -> float:
        """Return the seconds that are left; negative after the end."""
        return self.until - time.monotonic()

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
