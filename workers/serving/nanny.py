"""`python -m workers.serving.nanny`: holds an embedded broker for its coordinators.

Reads its order from standard input, which is also its leash: when the coordinator at the other end
is gone and no other one has joined, server, files and nanny go too. The nanny holds the lock on
the `.broker` of each run that it serves; that lock says that the broker lives.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from workers import clock
from workers.keeping.locks import try_lock
from workers.serving import leash
from workers.serving.server import PrivateServer

READY: Final = b"ready\n"
STAYING: Final = b"staying\n"
"""The answer to a goodbye, if another coordinator has joined."""
CLIENT_FILE: Final = "client.json"
"""The URL with its password, 0600, for coordinators that join."""
JOINED_FILE: Final = "joined"
"""Coordinators that joined hold a shared lock on it."""

_STARTS: Final = 5
_LOOK_S: Final = 0.2
_AGAIN_S: Final = 1.0
_LINGER_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a nanny is told."""

    binary: str
    directory: str
    """Private, made for this broker, removed with it."""
    password: str
    broker_files: tuple[str, ...] = ()
    """The `.broker` of each run that it serves."""
    locks: tuple[int, ...] = ()
    """Inherited descriptors that hold the locks on them."""

    def to_line(self) -> bytes:
        """Return what `main` reads."""
        return json.dumps(asdict(self)).encode() + b"\n"


class Nanny:
    """Single-threaded, as `leash.start_mortal` demands."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._directory = Path(order.directory)
        self._server = PrivateServer(Path(order.binary), self._directory, order.password)
        self._is_told_to_stop = False
        self._cut_s = 0.0
        self._may_linger = True
        self._closed = -1
        """Descriptor of the lock that keeps others from joining."""

    def run(self) -> int:
        """Serve until nobody needs the broker any more."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            if not self._start():
                return 1
            self._publish()
            os.write(1, READY)
            while not self._is_over():
                if not self._server.is_running():
                    clock.sleep(_AGAIN_S)
                    self._server.start()
        finally:
            self._clear()
        return 0

    def _on_signal(self, *_: object) -> None:
        self._is_told_to_stop = True

    def _start(self) -> bool:
        """A port that was free a moment ago may be taken: try another one."""
        for _ in range(_STARTS):
            if self._server.start():
                return True
            self._server.stop()
            self._server.port = 0
        return False

    def _publish(self) -> None:
        client = self._directory / CLIENT_FILE
        client.touch(mode=0o600)
        client.write_text(json.dumps({"url": self._server.url}))
        self._directory.joinpath(JOINED_FILE).touch(mode=0o600)
        who = {
            "host": socket.gethostname(),
            "port": self._server.port,
            "instance": str(self._directory),
        }
        for lock in self._order.locks:
            os.ftruncate(lock, 0)
            os.pwrite(lock, json.dumps(who).encode() + b"\n", 0)
            os.fsync(lock)

    def _is_over(self) -> bool:
        if self._cut_s:
            clock.sleep(_LOOK_S)
        elif (word := leash.heard(_LOOK_S)) is not None:
            self._cut_s = time.monotonic()
            self._may_linger = word != leash.GOODBYE
            if word == leash.GOODBYE and not self._is_alone():
                os.write(1, STAYING)
        return self._is_told_to_stop or (bool(self._cut_s) and not self._is_needed())

    def _is_needed(self) -> bool:
        """Workers of a coordinator that is gone hand back what they execute: let them."""
        is_early = self._may_linger and time.monotonic() < self._cut_s + _LINGER_S
        return (is_early and self._server.is_in_use()) or not self._is_alone()

    def _is_alone(self) -> bool:
        """Return True if no coordinator has joined; from then on none can."""
        if self._closed < 0:
            self._closed = try_lock(self._directory / JOINED_FILE) or -1
        return self._closed >= 0

    def _clear(self) -> None:
        """Remove every trace. The locks go last: until then nobody starts another broker."""
        self._server.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
        for file in self._order.broker_files:
            Path(file).unlink(missing_ok=True)


def main() -> int:
    """Read the order from the leash and obey it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return 1  # the coordinator died before it said what it wants
        line += byte
    return Nanny(Order(**json.loads(line))).run()


if __name__ == "__main__":
    sys.exit(main())
