"""A network without an outside that all commands of one sandbox share, so that they meet at its loopback.

Each command has a sandbox of its own; the network belongs to a small process that does nothing but wait.
It holds the other end of a pipe of ours, so it ends with us, whatever ends us.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from typing import Final

_START_S: Final = 30.0
_HOLD: Final = 'echo "$$"; exec cat'
"""Says its process id and waits for the end of its input."""
_END_S: Final = 5.0


class NetworkUnavailable(RuntimeError):
    """It cannot be made; the message says why."""


class OwnNetwork:
    """One of them. `close` ends it."""

    def __init__(self, program: str, enter: str) -> None:
        """Make it.

        Args:
            program: the path of `bwrap`.
            enter: the path of `nsenter`.

        Raises:
            NetworkUnavailable: the machine does not allow it.
        """
        self._enter = enter
        self._holder = subprocess.Popen(
            [
                *(program, "--unshare-user", "--unshare-net", "--cap-drop", "ALL"),
                *("--ro-bind", "/", "/", "--", "/bin/sh", "-c", _HOLD),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath},  # without the token of its attempt: nobody need look for it
        )
        try:
            self._pid = self._said()
        except BaseException:
            self.close()
            raise

    def entered(self) -> tuple[str, ...]:
        """Return the arguments in front of a command that is to be in it.

        Raises:
            NetworkUnavailable: somebody has ended it.
        """
        if self._holder.poll() is not None:
            raise NetworkUnavailable("the network of the sandbox was ended from outside")
        return self._enter, "-U", "-n", "-t", str(self._pid), "--preserve-credentials", "--"

    def close(self) -> None:
        """End it; idempotent. What still runs in it keeps it until then."""
        for stream in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            if stream is not None:
                stream.close()
        try:
            self._holder.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._holder.kill()
            self._holder.wait()

    def _said(self) -> int:
        out, err = self._holder.stdout, self._holder.stderr
        if out is None or err is None:
            raise NetworkUnavailable("it has no pipes")
        ready, _, _ = select.select([out], [], [], _START_S)
        line = out.readline().decode("ascii", "replace").strip() if ready else ""
        if not line.isdigit():
            self._holder.kill()
            reason = err.read().decode("utf-8", "replace").strip()
            raise NetworkUnavailable(reason or "it does not come up")
        return int(line)


def enter_program(path: str) -> str | None:
    """Return the program that enters a network; None if there is none (Debian: util-linux)."""
    return shutil.which("nsenter", path=path)
