"""Ends what an attempt's own code started inside of a pool child, and forgot.

What an environment starts is the environment's to end. This is for harnesses and benchmarks that
start processes by themselves: a pool child executes one attempt at a time, so whatever is below
it when the attempt is over was that attempt's. Reads `/proc`; where there is none nothing is found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from workers import clock

_PROC: Final = Path("/proc")
_PR_SET_CHILD_SUBREAPER: Final = 36
_PATIENCE_S: Final = 5.0
_LOOK_S: Final = 0.002


def adopt() -> None:
    """Become the parent of every descendant that daemonises, so that it can be found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all() -> int:
    """Kill and collect every process below this one; returns how many there were."""
    ended: set[int] = set()
    give_up_at = time.monotonic() + _PATIENCE_S
    while below := _below(os.getpid()):
        # All are stopped before one is killed, so that nothing forks away meanwhile.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in below:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        ended.update(below)
        if time.monotonic() >= give_up_at:
            break
        _collect()
        clock.sleep(_LOOK_S)
    return len(ended)


def _below(pid: int) -> list[int]:
    """Return all descendants, parents first."""
    found: list[int] = []
    for child in _children(pid):
        found += [child, *_below(child)]
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = list(_PROC.joinpath(str(pid), "task").iterdir())
    except OSError:  # gone meanwhile, or a system without it
        return []
    found: list[int] = []
    for task in tasks:
        with suppress(OSError):  # one thread that ended hides no other's children
            found += map(int, task.joinpath("children").read_bytes().split())
    return found


def _collect() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
