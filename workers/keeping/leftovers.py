"""Removes what dead executions left outside of this machine's processes: containers, mostly.

An environment that may leave such a thing says so with a note in its own folder. The work is done
by a process of its own: the libraries that it needs are no affair of a worker, which forks.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

logger: Final = logging.getLogger(__name__)

_PATIENCE_S: Final = 120.0


def clear(work: Path, tokens: Iterable[str]) -> None:
    """Remove what these executions left; never raises.

    Args:
        work: where a worker's executions have their folders.
        tokens: executions whose processes are dead.
    """
    notes = _notes(work, tokens)
    if not notes:
        return
    command = [sys.executable, "-m", "workers.keeping.leftovers", json.dumps(notes)]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("what dead executions left is not removed: %s", error)


def _notes(work: Path, tokens: Iterable[str]) -> dict[str, list[str]]:
    """Return environment class -> executions that may have left something with it."""
    found: dict[str, list[str]] = {}
    for token in tokens:
        # Only after a worker was killed, so only then a supervisor pays for the import.
        from agentcompass.environments.base import OUTSIDE

        for note in work.glob(f"{token}.*/{OUTSIDE}"):
            with suppress(OSError):  # what it spoke of is being removed
                found.setdefault(note.read_text(encoding="utf-8"), []).append(token)
    return found


def main(text: str) -> None:
    """Remove what the notes speak of; an environment from a file is not loaded for that."""
    from agentcompass.environments.base import Environment
    from agentcompass.runtime import components

    notes: dict[str, list[str]] = json.loads(text)
    for name, tokens in notes.items():
        found = components.find("environment", name, trusted_roots=())
        count = found.reap(tokens) if issubclass(found, Environment) else 0
        logger.warning("%d leftovers of dead executions removed (%s)", count, name)


if __name__ == "__main__":
    main(sys.argv[1])
