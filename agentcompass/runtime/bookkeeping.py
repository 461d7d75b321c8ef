"""Lets the threads of a worker keep their attempts' books one after the other.

Every system call hands the interpreter to whichever thread waits for it. With many that do, each of
an attempt's hundred calls costs two changes of threads, which is a third of its CPU time. Threads
that wait here take no part in that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COURTESY_S: Final = 0.25
"""Nothing relies on being alone: whoever has waited for so long goes on beside the others, so that a
share or a broker that is slow holds up nobody for longer."""
MOST_WAITING: Final = 64
"""When so many wait already, to wait as well helps nobody: a thousand that end at once all go on."""

_turn: Final = threading.Lock()
_queue: Final = threading.Semaphore(MOST_WAITING)


class _Own(threading.local):
    has_turn = False


_own: Final = _Own()


@contextmanager
def bookkeeping() -> Iterator[None]:
    """Look at the run, talk to the broker, publish; inside of itself it changes nothing."""
    if _own.has_turn:
        yield
        return
    _own.has_turn = _begin()
    try:
        yield
    finally:
        _end()


@contextmanager
def others_go_on() -> Iterator[None]:
    """Let the others go on while this thread waits for a plug-in, for its turn, or for time to pass."""
    if not _own.has_turn:
        yield
        return
    _end()
    try:
        yield
    finally:
        _own.has_turn = _begin()


def _begin() -> bool:
    if not _queue.acquire(blocking=False):
        return False
    try:
        return _turn.acquire(timeout=COURTESY_S)
    finally:
        _queue.release()


def _end() -> None:
    if _own.has_turn:
        _own.has_turn = False
        _turn.release()
