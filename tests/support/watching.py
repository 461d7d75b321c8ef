"""Sees all that Redis is told, and all that Flower tells."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from redis import Redis

from tests.support.broker import free_port
from tests.support.cluster import Cluster, until


class Monitor:
    """Every command that a Redis gets, from the first to the last, as text."""

    def __init__(self, client: Redis) -> None:
        options = client.connection_pool.connection_kwargs
        password = options.get("password")
        self._socket = socket.create_connection((options["host"], options["port"]))
        if password:
            self._socket.sendall(f"AUTH {password}\r\n".encode())
            assert self._socket.recv(100) == b"+OK\r\n"
        self._socket.sendall(b"MONITOR\r\n")
        assert self._socket.recv(5) == b"+OK\r\n"
        self._chunks: list[bytes] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while chunk := self._received():
            self._chunks.append(chunk)

    def _received(self) -> bytes:
        try:
            return self._socket.recv(1 << 20)
        except OSError:
            return b""

    def text(self) -> str:
        """Return what was heard so far, with what is hidden in base64 spelled out."""
        return _spelled_out(b"".join(self._chunks).decode(errors="replace"))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


def everything_in(client: Redis) -> str:
    """Return all keys and values of a Redis as one text."""
    return _spelled_out(
        "\n".join(f"{key!r} {value!r}" for key, value in _items(client)),
    )


def _items(client: Redis) -> Iterator[tuple[object, object]]:
    read: Mapping[str, tuple[str | int, ...]] = {
        "string": ("GET",),
        "list": ("LRANGE", 0, -1),
        "hash": ("HGETALL",),
        "set": ("SMEMBERS",),
        "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
        "none": ("EXISTS",),  # gone since we looked
    }
    for key in client.scan_iter():
        kind = client.type(key)
        command, *more = read[kind.decode() if isinstance(kind, bytes) else kind]
        yield key, client.execute_command(command, key, *more)  # type: ignore[no-untyped-call]  # it has no types


def _spelled_out(text: str) -> str:
    hidden = re.findall(r"[A-Za-z0-9+/]{40,}={0,2}", text)
    found = [base64.b64decode(each[: len(each) // 4 * 4]) for each in hidden]
    return "\n".join([text, *(each.decode(errors="replace") for each in found)])


def a_flower(cluster: Cluster) -> FlowerApi:
    """Start a Flower before any worker; when it is returned it hears all that is said."""
    port = free_port()
    cluster.start(
        "flower", "--broker", cluster.broker.url, "--port", str(port),
        env={"FLOWER_BASIC_AUTH": "user:flower-password"},
    )  # fmt: skip
    flower = FlowerApi(port, "user:flower-password")
    until(flower.is_up, "Flower answers")
    until(lambda: bool(cluster.broker.client.pubsub_numpat()), "Flower listens")
    return flower


class FlowerApi:
    """A running Flower, by its HTTP API."""

    def __init__(self, port: int, user: str) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._user = base64.b64encode(user.encode()).decode()

    def page(self, path: str) -> str:
        """Return what a page says, be it an error; OSError if nobody answers."""
        request = urllib.request.Request(f"{self.address}{path}")
        request.add_header("Authorization", f"Basic {self._user}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return str(answer.read().decode())
        except HTTPError as error:
            return error.read().decode()

    def is_up(self) -> bool:
        with suppress(OSError):
            return "OK" in self.page("/healthcheck")
        return False

    def attempts(self, search: str = "") -> Mapping[str, Mapping[str, Any]]:
        """Return uuid -> what Flower knows of each attempt, of those that a search finds."""
        found = json.loads(self.page(f"/api/tasks?limit=10000&search={quote(search)}"))
        return {uuid: task for uuid, task in found.items() if task["name"] == "eval.attempt"}
