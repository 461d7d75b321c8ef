"""Calls in a main thread, which is where a prefork child executes: no second thread, a timer.

`setitimer` sends SIGALRM; its handler raises in whatever Python code runs, also out of system
calls such as `sleep` and `recv`, and does so again every second: code that swallows the exception
meets the next one. Code that is stuck in C is the keeper's business, which kills the process.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

from agentcompass.errors import AttemptFailure
from agentcompass.runtime.calling.interrupts import Interrupt, Limit

T = TypeVar("T")
_AT_ONCE: Final = 1e-6


class _Alarm:
    """The one timer of the process."""

    def __init__(self) -> None:
        self.is_armed = False
        self.has_rung = False
        self.limit: Limit | None = None

    def arm(self, limit: Limit) -> None:
        self.has_rung = False
        self.limit = limit
        if signal.getsignal(signal.SIGALRM) is not _ring:
            signal.signal(signal.SIGALRM, _ring)
        self.is_armed = True
        self.wind()

    def wind(self) -> None:
        if self.limit is not None:
            wait_s = max(self.limit.patience_s(), _AT_ONCE)
            signal.setitimer(signal.ITIMER_REAL, wait_s, self.limit.repeat_s)

    def disarm(self) -> None:
        self.is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


_ALARM: Final = _Alarm()


def _ring(_signal: int, _frame: FrameType | None) -> None:
    if not _ALARM.is_armed:
        return
    if _ALARM.limit is not None and not _ALARM.limit.is_over():  # its clock has stood still
        _ALARM.wind()
        return
    _ALARM.has_rung = True
    raise Interrupt


def call_with_alarm(limit: Limit, fn: Callable[[], T]) -> T:
    """Call in this thread, which must be the main one; calls do not nest."""

    def now() -> None:
        signal.setitimer(signal.ITIMER_REAL, _AT_ONCE, limit.repeat_s)

    try:
        try:
            _ALARM.arm(limit)
            limit.stop.listen(now)
            value = fn()
        finally:
            _ALARM.disarm()
            limit.stop.unlisten(now)
    except AttemptFailure:
        # Also when it was interrupted: it classified what it had by then.
        _disarm(limit, now)
        raise
    except BaseException as error:
        # The alarm may have rung inside the `finally` above, before it was disarmed.
        _disarm(limit, now)
        if _ALARM.has_rung:
            raise limit.passed() from _cause(error)
        raise
    if _ALARM.has_rung:  # it swallowed the interrupt and returned something
        raise limit.passed()
    return value


def _disarm(limit: Limit, listener: Callable[[], None]) -> None:
    _ALARM.disarm()
    limit.stop.unlisten(listener)


def _cause(error: BaseException) -> BaseException | None:
    return None if isinstance(error, Interrupt) else error
