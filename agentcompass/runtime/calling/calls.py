"""Calls plug-in code with a deadline that holds, whatever pool the worker has.

| | runs in | ended by |
|---|---|---|
| `def`, main thread (prefork child) | this thread | SIGALRM, again and again; then the keeper |
| `def`, another thread (threads pool) | a thread of its own | an exception, then left alone |
| `async def` | the process's one event loop | cancellation, then left alone |

What a plug-in raises comes out as it is, `SystemExit`, `KeyboardInterrupt` and `MemoryError`
included: the caller records them as the attempt's issue. `DeadlineReached` and `Stopped` are ours.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ParamSpec, TypeVar, cast

from agentcompass.runtime.bookkeeping import others_go_on
from agentcompass.runtime.calling.alarm import call_with_alarm
from agentcompass.runtime.calling.interrupts import DeadlineReached, Limit, Stopped
from agentcompass.runtime.calling.loop import call_in_loop
from agentcompass.runtime.calling.threads import call_in_thread
from agentcompass.runtime.calling.twins import ending_twins, ending_twins_of_awaited

__all__ = ["DeadlineReached", "Limit", "Stopped", "call", "is_async"]

T = TypeVar("T")
P = ParamSpec("P")


def is_async(fn: Callable[..., object]) -> bool:
    """Return True for `async def` functions and methods."""
    return inspect.iscoroutinefunction(fn)


def call(limit: Limit, fn: Callable[P, T | Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call to the end or to the limit; an awaitable that a `def` returns is awaited.

    Raises:
        DeadlineReached: the limit passed. An `AttemptFailure` that the interrupted code raised
            comes out instead: it classified what it had.
        Stopped: the execution is ended from outside.
    """
    limit.check()
    with others_go_on():
        return _called(limit, partial(fn, *args, **kwargs), is_coroutine=is_async(fn))


def _called(limit: Limit, bound: Callable[[], T | Awaitable[T]], *, is_coroutine: bool) -> T:
    if is_coroutine:
        awaited = ending_twins_of_awaited(cast("Callable[[], Awaitable[T]]", bound))
        return call_in_loop(limit, awaited)
    in_main = threading.current_thread() is threading.main_thread()
    guarded = ending_twins(bound)
    value = call_with_alarm(limit, guarded) if in_main else call_in_thread(limit, guarded)
    if inspect.isawaitable(value):
        awaitable = cast("Awaitable[T]", value)
        return call_in_loop(limit, ending_twins_of_awaited(lambda: awaitable))
    return value
