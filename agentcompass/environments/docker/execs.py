"""Commands in a container: their streams, their deadline, their end."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from agentcompass.environments.base import ExecResult
from agentcompass.environments.output import Kept
from agentcompass.environments.shell import with_signal

if TYPE_CHECKING:
    from docker import APIClient

_LABEL: Final = "AGENTCOMPASS_EXEC"
_SLICE_S: Final = 0.25
"""Python can interrupt a thread only between two calls into the system."""
_LOOK_S: Final = 1.0
"""How often we ask for the end of a command whose streams do not end."""
_STREAMS_S: Final = 5.0
"""The engine closes the streams of a command two seconds after it ended, if others hold them."""
_KILLING_S: Final = 10.0
_KILLED: Final = -9
_HEADER: Final = 8
_STDERR: Final = 2
_KILL_SCRIPT: Final = """
n=0
while [ $n -lt 20 ]; do
  n=$((n + 1)) found=
  for p in /proc/[0-9]*; do
    if tr '\\0' '\\n' < "$p/environ" 2>/dev/null | grep -qx "$1"; then
      found=1
      kill -9 "${p#/proc/}" 2>/dev/null
    fi
  done
  [ "$found" ] || exit 0
done
exit 1
"""


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """One command with everything that it may use."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout_s: float | None
    output_limit: int
    """Bytes that are kept of each stream."""


class CommandsStuck(RuntimeError):
    """A command went on after its time; only the end of its container ends it."""


def run(api: APIClient, container: str, command: ContainerCommand) -> ExecResult:
    """Run a command to its end.

    A time-out kills everything that carries the label of this command: what it started, also in
    sessions of its own.

    Raises:
        CommandsStuck: it could not be killed.
        docker.errors.APIError: the engine refused.
    """
    return with_signal(_Running(api, container, command).result())


class _Running:
    """A started command."""

    def __init__(self, api: APIClient, container: str, command: ContainerCommand) -> None:
        self._api = api
        self._container = container
        self._label = f"{_LABEL}={uuid4().hex}"
        self._started_at = time.monotonic()
        timeout_s = command.timeout_s
        self._deadline = None if timeout_s is None else self._started_at + timeout_s
        self._streams = _Streams(command.output_limit)
        made = api.exec_create(
            container,
            list(command.argv),
            environment=[*(f"{key}={value}" for key, value in command.env.items()), self._label],
            workdir=command.cwd,
        )
        self._id = str(made["Id"])

    def result(self) -> ExecResult:
        with attached(self._api, self._id) as (connection, early):
            self._streams.feed(early)
            is_late = not self._read_to_the_end(connection)
        is_late = is_late or not self._wait()
        if is_late:
            self._kill()
        code = self._exit_code()
        out, err = self._streams.out, self._streams.err
        return ExecResult(
            exit_code=_KILLED if is_late or code is None else code,
            stdout=out.text(),
            stderr=err.text(),
            stdout_bytes=out.size,
            stderr_bytes=err.size,
            duration_s=time.monotonic() - self._started_at,
            timed_out=is_late,
            truncated=out.is_cut or err.is_cut,
        )

    def _read_to_the_end(self, connection: socket.socket) -> bool:
        """Take what comes until the streams end; False if the command's time was up."""
        look_at = time.monotonic() + _LOOK_S
        give_up_at: float | None = None
        while not self._is_late():
            chunk = _received(connection)
            if chunk is not None:
                if not chunk:
                    return True
                self._streams.feed(chunk)
            now = time.monotonic()
            if give_up_at is not None and now >= give_up_at:
                return True
            if now >= look_at and give_up_at is None:
                look_at = now + _LOOK_S
                give_up_at = now + _STREAMS_S if self._exit_code() is not None else None
        return False

    def _wait(self) -> bool:
        """Wait for a command that has closed its streams; False if its time was up."""
        wait_s = 0.002
        while self._exit_code() is None:
            if self._is_late():
                return False
            time.sleep(wait_s)  # noqa: TID251 - the engine has no call that waits for a command
            wait_s = min(2 * wait_s, _SLICE_S)
        return True

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _exit_code(self) -> int | None:
        """Return the code of the command, or None while it runs."""
        found = self._api.exec_inspect(self._id)
        return None if found["Running"] else int(found["ExitCode"] or 0)

    def _kill(self) -> None:
        argv = ["/bin/sh", "-c", _KILL_SCRIPT, "sh", self._label]
        killer = self._api.exec_create(self._container, argv)["Id"]
        self._api.exec_start(killer, detach=True)
        until = time.monotonic() + _KILLING_S
        while self._exit_code() is None or self._api.exec_inspect(killer)["Running"]:
            if time.monotonic() >= until:
                raise CommandsStuck("a command went on after its time")
            time.sleep(0.01)  # noqa: TID251 - as above
        if self._api.exec_inspect(killer)["ExitCode"]:
            raise CommandsStuck("what a command started went on after its time")


@contextlib.contextmanager
def attached(api: APIClient, exec_id: str) -> Iterator[tuple[socket.socket, bytes]]:
    """Start a command; yield the connection on which its streams come, and what has come already."""
    reader: Any = api.exec_start(exec_id, socket=True)
    connection: Any = getattr(reader, "_sock", reader)
    response: Any = getattr(reader, "_response", reader)  # the SDK hangs it there
    try:
        early = _read_ahead(connection, response)
        connection.settimeout(_SLICE_S)
        yield connection, early
    finally:
        response.close()
        connection.close()


def _read_ahead(connection: Any, response: Any) -> bytes:
    """Return what was read together with the head of the answer: of a quick command, all of it.

    The SDK hands out the bare connection and forgets the buffer through which it read the head.
    """
    buffer = getattr(getattr(getattr(response, "raw", None), "_fp", None), "fp", None)
    peek = getattr(buffer, "peek", None)
    if peek is None:
        return b""
    connection.settimeout(0.0)  # an empty buffer would wait for more
    try:
        return bytes(peek(1))
    except ssl.SSLWantReadError:
        return b""


def _received(connection: socket.socket) -> bytes | None:
    """Return what has come, b"" at the end, None if there is nothing yet."""
    try:
        return connection.recv(1 << 16)
    except TimeoutError:
        return None
    except ConnectionError:
        return b""


class _Streams:
    """Takes apart what the engine sends: frames of both streams, one after the other."""

    def __init__(self, limit: int) -> None:
        self.out, self.err = Kept(limit), Kept(limit)
        self._header = b""
        self._left = 0
        self._current = self.out

    def feed(self, data: bytes) -> None:
        while data:
            if self._left:
                self._current.add(data[: self._left])
                taken = min(self._left, len(data))
                self._left -= taken
            else:
                taken = _HEADER - len(self._header)
                self._header += data[:taken]
                self._begin_frame()
            data = data[taken:]

    def _begin_frame(self) -> None:
        if len(self._header) == _HEADER:
            self._current = self.err if self._header[0] == _STDERR else self.out
            self._left = int.from_bytes(self._header[4:], "big")
            self._header = b""
