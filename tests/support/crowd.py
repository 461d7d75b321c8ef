"""Starts many coordinators in one and the same second:  python -m tests.support.crowd COUNT ARGUMENT…

They are forked from one process, so that they are as quick as they can be, and their clock stands
still. What they print is mixed line by line; at the end comes one line with their exit codes.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

import agentcompass.cli.run
import workers.dispatch  # noqa: F401 - imported once, before the fork
from agentcompass.cli.main import main

NOW = datetime(2026, 1, 31, 23, 59, 58, 500_000, UTC)


def start(count: int, arguments: list[str]) -> list[int]:
    """Run the command in `count` processes at once; return their exit codes."""
    agentcompass.cli.run.now = lambda: NOW  # type: ignore[attr-defined]
    ready, go = os.pipe()
    pids = [_forked(ready, go, arguments) for _ in range(count)]
    os.close(go)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _forked(ready: int, go: int, arguments: list[str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.close(go)
    os.read(ready, 1)  # returns when the last writer has closed
    code = main(arguments)
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    codes = start(int(sys.argv[1]), sys.argv[2:])
    sys.stdout.write(json.dumps(codes) + "\n")
