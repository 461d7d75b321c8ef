"""Looking at processes of this machine, and stopping whole trees of them at one stroke."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from tests.support.cluster import descendants


def freeze(pid: int) -> list[int]:
    """SIGSTOP a process and all that came of it; nobody forks away meanwhile. Return their pids."""
    frozen: set[int] = set()
    while True:
        found = {pid, *descendants(pid)} - frozen
        if not found:
            return sorted(frozen)
        for each in found:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
        frozen |= found


def children(pid: int) -> list[int]:
    """Return who was started by this process itself."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def thaw(pids: Collection[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def marked_with(marks: Collection[str]) -> list[str]:
    """Return what still runs with one of these texts in its environment or its command line."""
    wanted = [mark.encode() for mark in marks]
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        if int(path.name) == os.getpid():
            continue
        with suppress(OSError):
            command = path.joinpath("cmdline").read_bytes()
            text = command + path.joinpath("environ").read_bytes()
            if command and any(mark in text for mark in wanted):
                found.append(
                    f"{path.name} {command.replace(bytes(1), b' ').decode(errors='replace')}"
                )
    return found
