"""Calls of `async def` plug-in methods: one shared event loop per process, in its own thread.

Hundreds of attempts wait in it at once. What a call leaves running in the loop ends with the
call. A coroutine that blocks the loop blocks its siblings: it is interrupted at its deadline, and
if that does not help, later calls get a new loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeVar, cast

from agentcompass.errors import AttemptFailure
from agentcompass.runtime.calling.interrupts import Interrupt, Limit
from agentcompass.runtime.calling.threads import Bell, Job, raise_in, start, wait_for

T = TypeVar("T")
_PING_S: Final = 0.5


class _Call(Generic[T]):
    """One coroutine with everything that it started in the loop."""

    def __init__(self, fn: Callable[[], Awaitable[T]], on_end: Callable[[], None]) -> None:
        self.fn = fn
        self.on_end = on_end
        self.is_over = False
        self.error: BaseException | None = None
        self.tasks: weakref.WeakSet[asyncio.Future[Any]] = weakref.WeakSet()
        self._value: T | None = None

    async def run(self) -> None:
        """Await, and keep how it ended: nothing may reach the loop, `SystemExit` ends it."""
        try:
            self._value = await self.fn()
        except BaseException as error:  # noqa: BLE001 - the caller decides, in its own thread
            self.error = error
        self.cancel(but=asyncio.current_task())
        self.is_over = True
        self.on_end()

    def cancel(self, but: object = None) -> None:
        """Cancel what the call has started, or all but one of it."""
        for task in tuple(self.tasks):
            if task is not but:
                task.cancel()

    def outcome(self) -> T:
        """Return the value, or raise what was raised."""
        if self.error is not None:
            raise self.error
        return cast("T", self._value)


_CALL: contextvars.ContextVar[_Call[Any] | None] = contextvars.ContextVar("call", default=None)


def _owned_task(
    loop: asyncio.AbstractEventLoop,
    coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
    context: contextvars.Context | None = None,
) -> asyncio.Task[T]:
    task = asyncio.Task(coro, loop=loop, context=context)
    call = context.get(_CALL) if context is not None else _CALL.get()
    if call is not None:
        call.tasks.add(task)
    return task


class LoopThread(threading.Thread):
    """A loop that nothing but the end of the process ends."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="agentcompass-loop")
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(_owned_task)

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except BaseException:  # noqa: BLE001, S112 - a stray task called exit(); others go on
                continue

    def submit(self, call: _Call[Any]) -> None:
        """Start a call from any thread."""
        context = contextvars.Context()
        context.run(_CALL.set, call)
        self.loop.call_soon_threadsafe(
            lambda: self.loop.create_task(call.run(), context=context), context=context
        )

    def is_stuck(self) -> bool:
        """Return True if the loop does not turn."""
        turned = threading.Event()
        self.loop.call_soon_threadsafe(turned.set)
        return not turned.wait(_PING_S)


_current: list[LoopThread] = []
_lock = threading.Lock()


def _forget() -> None:
    global _lock  # it may have been held when the process was forked
    _current.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)  # threads do not survive a fork


def shared_loop() -> LoopThread:
    """Return the loop of this process; the first caller starts it."""
    with _lock:
        if not _current:
            thread = LoopThread()
            thread.start()
            _current.append(thread)
        return _current[0]


def call_in_loop(limit: Limit, fn: Callable[[], Awaitable[T]]) -> T:
    """Await in the shared loop until the limit, and then for a grace."""
    bell = Bell()
    call = _Call(fn, bell.ring)
    thread = shared_loop()
    thread.submit(call)
    try:
        wait_for(limit, lambda: call.is_over, bell)
        in_time = call.is_over
        if not in_time:
            _insist(limit, call, thread)
    finally:
        if not call.is_over:  # also when this very wait was interrupted
            thread.loop.call_soon_threadsafe(call.cancel)
    if not in_time and not isinstance(call.error, AttemptFailure):
        raise limit.passed()
    return call.outcome()


def _insist(limit: Limit, call: _Call[T], thread: LoopThread) -> None:
    ended = Bell()
    call.on_end = ended.ring
    give_up_at = time.monotonic() + limit.grace_s
    while not call.is_over and time.monotonic() < give_up_at:
        thread.loop.call_soon_threadsafe(call.cancel)
        if not ended.wait(limit.repeat_s) and thread.is_stuck():
            raise_in(thread, Interrupt)
    if not call.is_over and thread.is_stuck():
        with _lock:
            if thread in _current:
                _current.remove(thread)


async def in_thread(fn: Callable[[], T]) -> T:
    """Await a blocking function, which runs in a thread of its own.

    Unlike the loop's executor, a function that never ends neither uses up a place nor holds up
    the end of the process.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    job = Job(fn, lambda: _soon(loop, settle))
    start(job)
    await done
    return job.outcome()


def _soon(loop: asyncio.AbstractEventLoop, fn: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(fn)
