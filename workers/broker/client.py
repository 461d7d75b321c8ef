"""Our own connection to the broker, beside Celery's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, ConnectionError, TimeoutError
from redis.retry import Retry

from workers import clock

UNREACHABLE: Final = (ConnectionError, TimeoutError, BusyLoadingError, OSError)
"""What the client raises while Redis is away or starting; everything else is a bug."""


def connect(url: str, *, timeout_s: float = 5.0, retries: int = 1) -> Redis:
    """Return a client; opens nothing yet. Survives a fork: each process has its own sockets.

    One immediate retry, because a pooled socket of before a restart fails once; the patience is
    the caller's, who knows whether to wait or to go on.
    """
    return Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        socket_keepalive=True,
        health_check_interval=25,
        retry=Retry(NoBackoff(), retries),
    )


def answers_within(url: str, timeout_s: float) -> None:
    """Return if the server answers in time, whatever it is that takes so long.

    The client's own time-outs hold for each step: looking the name up has none, each address of
    the host has one, and so has each read. Hence a thread, which may be left behind.

    Raises:
        redis.exceptions.RedisError, OSError: it does not.
    """
    ended: SimpleQueue[Exception | None] = SimpleQueue()

    def ask() -> None:
        try:
            with connect(url, timeout_s=timeout_s, retries=0) as client:
                client.ping()
        except Exception as error:  # noqa: BLE001 - raised again below, in the caller's thread
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=ask, name="ping", daemon=True).start()
    try:
        error = ended.get(timeout=timeout_s)
    except Empty:
        raise TimeoutError(f"nothing came within {timeout_s:g} s") from None
    if error is not None:
        raise error


def patiently(act: Callable[[], None], *, sleep: Callable[[float], None] = clock.sleep) -> None:
    """Do something that must not be lost, as often as it takes; Redis comes back, or we are killed."""
    delay_s = 0.2
    while True:
        try:
            return act()
        except UNREACHABLE:
            sleep(delay_s)
            delay_s = min(delay_s * 2, 5.0)
