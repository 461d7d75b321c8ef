"""The streams of a command as an engine sends them."""

from __future__ import annotations

import pytest

from agentcompass.environments.docker.execs import _Streams


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
