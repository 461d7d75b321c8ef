"""The streams of a command as an engine sends them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from agentcompass.environments.docker.execs import _Streams, attached


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("size", [1, 3, 8, 9, 1_000])
def test_frames_are_taken_apart_however_they_arrive(size: int) -> None:
    data = frame(1, b"out one ") + frame(2, b"err") + frame(1, b"") + frame(1, b"out two")
    streams = _Streams(1_024)

    for at in range(0, len(data), size):
        streams.feed(data[at : at + size])

    assert (streams.out.text(), streams.err.text()) == ("out one out two", "err")


def test_much_output_is_cut_in_the_middle() -> None:
    streams = _Streams(1_024)

    for number in range(1_000):
        streams.feed(frame(1, b"%09d\n" % number))

    assert streams.out.size == 10_000
    assert streams.out.text().startswith("000000000\n000000001")
    assert streams.out.text().endswith("000000999\n")
    assert "bytes cut" in streams.out.text()


@pytest.fixture
def hasty_engine(tmp_path: Path) -> Iterator[docker.APIClient]:
    """An engine whose command has ended before the answer to its start has left."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        engine = threading.Thread(target=answer_at_once, args=(listening,), daemon=True)
        engine.start()
        with closing(docker.APIClient(base_url=f"unix://{path}", version="1.44")) as api:
            yield api
        engine.join(5)


def answer_at_once(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        while not connection.recv(1 << 16).endswith(b"}"):
            pass
        upgraded = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        connection.sendall(upgraded + frame(1, b"quick") + frame(2, b"and gone"))


def test_what_comes_together_with_the_answer_is_not_lost(hasty_engine: docker.APIClient) -> None:
    streams = _Streams(1_024)

    with attached(hasty_engine, "any") as (connection, early):
        streams.feed(early)
        while chunk := connection.recv(1_024):
            streams.feed(chunk)

    assert (streams.out.text(), streams.err.text()) == ("quick", "and gone")
