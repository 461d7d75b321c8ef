"""Finds what outlived its supervisor: a command may kill the process that watches over it.

Reads `/proc`; where there is none (macOS) nothing is found.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_LABEL: Final = b"AGENTCOMPASS_TOKEN="
_ROUNDS: Final = 20
"""A process may fork while it is being looked for."""


def kill_token(token: str) -> int:
    """Kill everything that carries this execution's token but ourselves; return how many it was."""
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        victims = {pid for pid in _labelled(_LABEL + token.encode()) if pid != os.getpid()}
        for pid in victims:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not victims - killed:
            break
        killed |= victims
    return len(killed)


def _labelled(label: bytes) -> Iterator[int]:
    for entry in _PROC.glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # of another user, or gone
        if label in variables:
            yield int(entry.name)
