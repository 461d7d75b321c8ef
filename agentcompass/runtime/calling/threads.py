"""Calls in a thread of their own: for workers whose slots are threads.

A thread cannot be killed. It is interrupted by an exception that Python raises in it at its next
bytecode; if it is stuck in C code it is left alone after a grace, and whatever it returns later
is ignored. Threads are used again, but never one that was interrupted.
"""

from __future__ import annotations

import ctypes
import os
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar, cast

from agentcompass.errors import AttemptFailure
from agentcompass.runtime.calling.interrupts import Interrupt, Limit

T = TypeVar("T")


class Job(Generic[T]):
    """One call and how it ended."""

    def __init__(self, fn: Callable[[], T], on_end: Callable[[], None]) -> None:
        self.fn = fn
        self.on_end = on_end
        self.is_over = False
        self.was_interrupted = False
        self.error: BaseException | None = None
        self._value: T | None = None
        self._lock = threading.Lock()

    def execute(self) -> bool:
        """Call, and keep how it ended; True if nobody has interrupted or will interrupt it."""
        try:
            self._value = self.fn()
        except BaseException as error:  # noqa: BLE001 - the caller decides, in its own thread
            self.error = error
        with self._lock:
            self.is_over = True
            return not self.was_interrupted

    def claim_interruption(self) -> bool:
        """Return True if the job is not over and may now be interrupted."""
        with self._lock:
            self.was_interrupted = not self.is_over
            return self.was_interrupted

    def abort(self) -> None:
        """End a job whose thread was interrupted outside of the call itself."""
        self.error = self.error or Interrupt()
        self.is_over = True

    def outcome(self) -> T:
        """Return the value, or raise what was raised."""
        if self.error is not None:
            raise self.error
        return cast("T", self._value)


class Hand(threading.Thread):
    """A thread that takes one job after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="agentcompass-call")
        self.jobs: queue.SimpleQueue[Job[object]] = queue.SimpleQueue()

    def run(self) -> None:
        job: Job[object] | None = None
        try:
            while True:
                job = self.jobs.get()
                if not job.execute():
                    break
                # Idle before the caller hears of the end, so that its next call finds this thread.
                _IDLE.append(self)
                job.on_end()
        except Interrupt:
            pass  # it was on its way when the call ended by itself
        if job is not None:
            job.abort()
            job.on_end()


_IDLE: list[Hand] = []
"""Appending and popping are atomic."""

os.register_at_fork(after_in_child=_IDLE.clear)  # threads do not survive a fork


def start(job: Job[T]) -> Hand:
    """Let an idle thread, or a new one, execute the job."""
    try:
        hand = _IDLE.pop()
    except IndexError:
        hand = Hand()
        hand.start()
    hand.jobs.put(cast("Job[object]", job))
    return hand


def call_in_thread(limit: Limit, fn: Callable[[], T]) -> T:
    """Call in another thread and wait for it until the limit, and then for a grace."""
    bell = Bell()
    job = Job(fn, bell.ring)
    hand = start(job)
    wait_for(limit, lambda: job.is_over, bell)
    if job.claim_interruption():
        _insist(limit, job, hand)
    if job.was_interrupted and not isinstance(job.error, AttemptFailure):
        raise limit.passed()
    return job.outcome()


class Bell:
    """Wakes one thread; may be rung by any thread, and by a signal handler in that very thread.

    A queue, because its calls are few and reentrant: an event's lock could be held by the code that
    the handler interrupts.
    """

    __slots__ = ("_rings", "ring")

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.ring: Callable[[], None] = partial(self._rings.put, None)

    def wait(self, timeout_s: float) -> bool:
        """Return True when it is rung, at once for a ring that nobody waited for; else False.

        Args:
            timeout_s: at least 0; more than the system can express is as long as that.
        """
        try:
            self._rings.get(timeout=min(timeout_s, threading.TIMEOUT_MAX))
        except queue.Empty:
            return False
        return True


def wait_for(limit: Limit, is_over: Callable[[], bool], bell: Bell) -> None:
    """Return when it or the limit is over; the end of either rings the bell."""
    limit.stop.listen(bell.ring)
    try:
        while not is_over() and not limit.is_over():
            bell.wait(limit.patience_s())
    finally:
        limit.stop.unlisten(bell.ring)


def _insist(limit: Limit, job: Job[T], hand: Hand) -> None:
    ended = Bell()
    job.on_end = ended.ring
    give_up_at = time.monotonic() + limit.grace_s
    while not job.is_over and hand.is_alive() and time.monotonic() < give_up_at:
        raise_in(hand, Interrupt)
        ended.wait(limit.repeat_s)


def raise_in(thread: threading.Thread, exception: type[BaseException]) -> None:
    """Raise an exception in another thread at its next bytecode."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(exception)
    )
