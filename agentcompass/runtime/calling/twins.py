"""Plug-in code may fork, and its child come back to us, by returning or by `sys.exit`.

Such a twin has all that we have: the lease, the queue's connection, the attempt's directory. It must
not go on as if it were us.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def ending_twins(fn: Callable[[], T]) -> Callable[[], T]:
    """Return `fn` so that a process which it has forked ends where it would come back."""
    own = os.getpid()

    def guarded() -> T:
        try:
            return fn()
        finally:
            if os.getpid() != own:
                os._exit(0)

    return guarded


def ending_twins_of_awaited(fn: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """Do the same for what is awaited."""
    own = os.getpid()

    async def guarded() -> T:
        try:
            return await fn()
        finally:
            if os.getpid() != own:
                os._exit(0)

    return guarded
