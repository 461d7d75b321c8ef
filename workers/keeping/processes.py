"""Processes by number and by label: is it still the same one, and who belongs to an execution."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Set
from pathlib import Path
from typing import Final

LABEL: Final = "AGENTCOMPASS_TOKEN"
"""Environment variable of everything that an execution starts; its value is the token."""
WORKER_LABEL: Final = "AGENTCOMPASS_WORKER"
"""The same of everything that a worker process starts; its value is the name of the instance."""

_PROC: Final = Path("/proc")
_ROUNDS: Final = 20


def started(pid: int) -> int | None:
    """Return when a process started, in the kernel's ticks; None if it is gone or a zombie.

    With it a number that was given to another process is not mistaken. Without `/proc` (macOS)
    every living process started at 0.
    """
    if not _PROC.joinpath("self").exists():
        return 0 if _exists(pid) else None
    try:
        text = _PROC.joinpath(str(pid), "stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold spaces
    return None if fields[0] in {b"Z", b"X"} else int(fields[19])


def is_running(pid: int, started_at: int | None) -> bool:
    """Return whether this very process still runs."""
    return started_at is not None and started(pid) == started_at


def kill(pid: int, started_at: int | None) -> bool:
    """Send SIGKILL to this very process; False if it was gone."""
    if pid <= 1 or not is_running(pid, started_at):
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_labelled(values: Collection[str], label: str = LABEL) -> int:
    """Kill everything that these executions left, and what forks meanwhile; returns how many.

    Only processes of our own user that carry one of the values in their environment.
    """
    wanted = {f"{label}={value}".encode() for value in values}
    killed: set[int] = set()
    for _ in range(_ROUNDS if wanted else 0):
        found = [pid for pid in _labelled(wanted) if pid != os.getpid()]
        if not found:
            break
        for pid in found:
            if kill(pid, started(pid)):
                killed.add(pid)
    return len(killed)


def _labelled(wanted: Set[bytes]) -> Iterator[int]:
    if not _PROC.joinpath("self").exists():
        return
    for path in _PROC.iterdir():
        pid = int(path.name) if path.name.isdigit() else 0
        if pid and not wanted.isdisjoint(_environment(path)) and started(pid) is not None:
            yield pid


def _environment(process: Path) -> list[bytes]:
    try:
        return process.joinpath("environ").read_bytes().split(b"\0")
    except OSError:
        return []  # of another user, or gone


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
