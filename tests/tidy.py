"""Run a command in a private temporary folder, and hold it to leaving no process behind.

    python tests/tidy.py python -m pytest

The folder is removed afterwards, whatever is in it. On Linux every process that the command left
is ended and named, and the exit code is 1; elsewhere nobody can tell and nobody is asked.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 30.0
"""How long what ends by itself may take after the command ended."""


def main(command: Sequence[str]) -> int:
    """Return the command's exit code, or 1 if it left processes."""
    # A short path: it holds unix sockets, whose names may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="tidy-"))
    adopts = _adopt_orphans()
    environment = {**os.environ, "TMPDIR": str(folder)}
    # With it each of thousands of processes would compile all modules again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        exit_code = _run(command, environment)
        left = _end_what_is_left() if adopts else []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in left:
        print(f"left behind: {line}", file=sys.stderr)  # noqa: T201 - a script's own output
    return exit_code or int(bool(left))


def _adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent ends."""
    if not sys.platform.startswith("linux"):
        return False
    failed = int(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    return not failed


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    child = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child as well
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        # Adopted ones are reaped at once: a test that waits for their end must not see zombies.
        pid, status = os.waitpid(-1, 0)
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode


def _end_what_is_left() -> list[str]:
    until = time.monotonic() + GRACE_S
    while _reap() and time.monotonic() < until:
        time.sleep(0.05)
    left: dict[int, str] = {}
    while _reap():  # killing one hands us its children
        for pid in _children():
            left.setdefault(pid, _describe(pid))
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return list(left.values())


def _reap() -> bool:
    """Collect the ended ones; return whether any child remains."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    me = os.getpid()
    text = Path(f"/proc/{me}/task/{me}/children").read_text(encoding="ascii")
    return [int(pid) for pid in text.split()]


def _describe(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return str(pid)
    return f"{pid} {raw.replace(bytes(1), b' ').decode(errors='replace').strip() or '(ended)'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
