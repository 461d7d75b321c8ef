"""What is kept of a command's output: its beginning and its end, within a limit."""

from __future__ import annotations

from collections import deque


class Kept:
    """The beginning and the end of one stream, at most `limit` bytes, and its true size."""

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._head_limit = limit // 2
        self._tail_limit = limit - limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.size += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        rest = chunk[room:] if room else chunk
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    @property
    def is_cut(self) -> bool:
        """True if the stream was longer than what is kept of it."""
        return self.size > self._head_limit + self._tail_limit

    def text(self) -> str:
        """Return what was kept; where something is missing a marker says how much."""
        return shortened(self.size, bytes(self._head), b"".join(self._tail)[-self._tail_limit :])


def is_cut(size: int, head: bytes, tail: bytes) -> bool:
    """Return whether a stream of `size` bytes has more than its beginning and its end."""
    return size > len(head) + len(tail)


def shortened(size: int, head: bytes, tail: bytes) -> str:
    """Decode the beginning and the end of a stream of `size` bytes, with a marker between them."""
    if not is_cut(size, head, tail):
        return (head + tail).decode("utf-8", "replace")
    cut = size - len(head) - len(tail)
    start, end = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
    return f"{start}\n[… {cut} of {size} bytes cut …]\n{end}"
