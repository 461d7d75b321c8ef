"""The worker's side of a supervised command; see `supervisor.py` for what is promised."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from agentcompass.environments.base import ExecResult
from agentcompass.environments.output import is_cut, shortened

_SCRIPT: Final = Path(__file__).with_name("supervisor.py")
_SLICE_S: Final = 0.5
"""Python can interrupt a thread only between two calls into the system."""
_ENDING_S: Final = 15.0
"""A supervisor needs at most ten seconds to kill what can be killed."""
_LENGTH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Order:
    """One command with everything that it may use."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout_s: float | None
    limits: Mapping[str, int]
    """`RLIMIT_…` -> value."""
    output_limit: int
    """Bytes that are kept of each stream."""


class SupervisorLost(RuntimeError):
    """The supervisor was killed, or could not start; what the command did is unknown."""


class Supervised:
    """A started command. `close` ends it and everything that came of it."""

    def __init__(self, order: Order, stdin: str | None) -> None:
        self._output_limit = order.output_limit
        self._socket, theirs = socket.socketpair()
        try:
            self._process = _start_supervisor(theirs, order.env, stdin)
            self._send(order)
        except BaseException:
            self._socket.close()  # which is all that a supervisor waits for
            raise
        finally:
            theirs.close()

    def result(self) -> tuple[ExecResult, bool]:
        """Wait for the end of the command.

        Returns:
            The result, and whether something that it started still runs in the background.

        Raises:
            SupervisorLost: nothing is known about the end.
        """
        size = int.from_bytes(self._receive(_LENGTH_BYTES), "big")
        report = marshal.loads(self._receive(size))  # noqa: S302 - from our own child
        result = ExecResult(
            exit_code=report["exit_code"],
            stdout=shortened(*report["stdout"]),
            stderr=shortened(*report["stderr"]),
            stdout_bytes=report["stdout"][0],
            stderr_bytes=report["stderr"][0],
            duration_s=report["duration_s"],
            timed_out=report["timed_out"],
            truncated=any(is_cut(*report[name]) for name in ("stdout", "stderr")),
        )
        return result, report["leaves_something"]

    def has_ended(self) -> bool:
        """Return True if nothing is left of the command."""
        return self._process.poll() is not None

    @property
    def was_lost(self) -> bool:
        """True if the supervisor was killed: then what it watched over may go on."""
        return self._process.returncode not in {None, 0}

    def close(self) -> None:
        """Kill whatever is left; idempotent, also after an exception in the middle of anything."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes another thread that waits for it
        self._socket.close()
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, order: Order) -> None:
        data = marshal.dumps(
            {
                "argv": list(order.argv),
                "cwd": order.cwd,
                "env": dict(order.env),
                "timeout_s": order.timeout_s,
                "limits": dict(order.limits),
                "output_limit": order.output_limit,
            }
        )
        with contextlib.suppress(BrokenPipeError):  # `result` will say that it died
            self._socket.sendall(len(data).to_bytes(4, "big") + data)
        self._socket.settimeout(_SLICE_S)

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self._socket.recv(min(size - len(data), 1 << 20))
            except TimeoutError:
                continue
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise SupervisorLost(
                    "the command's supervisor ended before it reported "
                    f"(exit code {self._process.wait()})"
                )
            data += chunk
        return bytes(data)


def _start_supervisor(
    control: socket.socket, env: Mapping[str, str], stdin: str | None
) -> subprocess.Popen[bytes]:
    label = {name: value for name, value in env.items() if name.startswith("AGENTCOMPASS_")}
    with _input(stdin) as file:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", os.fspath(_SCRIPT), str(control.fileno())],
            stdin=file,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=label,
            pass_fds=(control.fileno(),),
            start_new_session=True,  # Ctrl-C at a terminal reaches us, who then end it
        )


@contextlib.contextmanager
def _input(text: str | None) -> Iterator[IO[bytes] | int]:
    """Yield what the command reads: a file, so that nobody has to feed it."""
    if text is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.seek(0)
        yield file
