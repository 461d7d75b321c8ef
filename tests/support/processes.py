"""Looking at processes of this machine, and stopping whole trees of them at one stroke.

Whoever is looked at may end at any moment: that is an answer, and no error.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from tests.support.tree import paths_in


def children(pid: int) -> list[int]:
    """Return who was started by this process itself."""
    found: list[int] = []
    for path in paths_in(Path(f"/proc/{pid}/task"), "*/children"):
        with suppress(OSError):
            found += map(int, path.read_text("ascii").split())
    return found


def descendants(pid: int) -> list[int]:
    """Return all that came of a process, parents first."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def command_lines() -> Mapping[int, list[str]]:
    """Return pid -> the words of its command, of everybody that has one; zombies have none."""
    found = {}
    for path in paths_in(Path("/proc"), "[0-9]*/cmdline"):
        with suppress(OSError):
            found[int(path.parent.name)] = path.read_text(errors="replace").split("\0")[:-1]
    return {pid: words for pid, words in found.items() if words}


def marked_with(marks: Collection[str]) -> list[str]:
    """Return what still runs with one of these texts in its environment or its command line."""
    found = []
    for pid, words in command_lines().items():
        with suppress(OSError):
            text = "\0".join(words) + Path(f"/proc/{pid}/environ").read_text(errors="replace")
            if pid != os.getpid() and any(mark in text for mark in marks):
                found.append(f"{pid} {' '.join(words)}")
    return found


def end_tree(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal a process and all its descendants, the parents first."""
    for each in [pid, *descendants(pid)]:
        with suppress(ProcessLookupError):
            os.kill(each, number)


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


def thaw(pids: Collection[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
