"""The floor of the queue: Celery with our settings and nothing of ours, tasks that do nothing.

    python -m bench.bare worker POOL SLOTS | chord COUNT | send COUNT

The broker is the one in $AGENTCOMPASS_BROKER_URL. `chord` is what anybody would write with
Celery's canvas, and ends when the callback was called; `send` sends as many plain messages with
`producer.batch`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from celery import Celery, chord, signals
from kombu.entity import Queue
from redis import Redis

from workers.settings import Clocks, celery_settings
from workers.urls import from_environment

QUEUE: Final = "bare"
DONE: Final = "bare:done"
READY: Final = "bare worker is ready"
BATCH: Final = 500


def make_app() -> Celery:
    """Return an app with our settings, one queue, and Celery's own backend and consumer."""
    url = from_environment(os.environ)
    app = Celery("bare", broker=url, backend=url, set_as_current=False)
    settings = celery_settings(Clocks()) | {"task_default_queue": QUEUE}
    del settings["worker_consumer"]
    app.conf.update(settings)
    app.conf.task_queues = [Queue(QUEUE)]  # type: ignore[no-untyped-call]  # kombu has no types

    @app.task(name="bare.nothing")  # type: ignore[untyped-decorator]  # celery has no types
    def nothing(*_: object) -> int:
        return 1

    @app.task(name="bare.done")  # type: ignore[untyped-decorator]  # as above
    def done(*_: object) -> None:
        Redis.from_url(url).rpush(DONE, 1)

    return app


def serve(pool: str, slots: str) -> None:
    """Be a worker until SIGTERM."""
    signals.worker_ready.connect(_say_so, weak=False)
    make_app().worker_main(
        ["worker", "-P", pool, "-c", slots, "-l", "WARNING", "--without-gossip", "--without-mingle"]
    )


def _say_so(**_: object) -> None:
    print(READY, file=sys.stderr, flush=True)


def call_chord(count: int) -> None:
    """Send a chord and wait for its callback."""
    app = make_app()
    nothing, done = app.tasks["bare.nothing"], app.tasks["bare.done"]
    # The arguments are as long as those of our own messages.
    headers = [
        nothing.si("model_noop_noop/20250101_000000", "0123abcd", 1, n, 1) for n in range(count)
    ]
    called = chord(headers, app=app)(done.si())
    _await_callback()
    del called


def _await_callback() -> None:
    client = Redis.from_url(from_environment(os.environ), socket_timeout=30)
    while client.blpop([DONE], timeout=10) is None:
        continue


def send(count: int) -> None:
    """Send messages as fast as Celery can."""
    app = make_app()
    nothing = app.tasks["bare.nothing"]
    numbers = iter(range(count))
    with app.producer_pool.acquire(block=True) as producer:
        while batch := list(_batch(numbers)):
            _send(nothing, producer, batch)


def _send(task: Any, producer: Any, batch: list[int]) -> None:
    with producer.batch():
        for number in batch:
            task.apply_async(
                ("model_noop_noop/20250101_000000", "0123abcd", 1, number, 1),
                task_id=f"20250101_000000:task-{number:06}:a1:l1",
                producer=producer,
            )


def _batch(numbers: Iterator[int]) -> Iterator[int]:
    return islice(numbers, BATCH)


def main(action: str, *arguments: str) -> None:
    """Do one of the three."""
    match action:
        case "worker":
            serve(*arguments)
        case "chord":
            call_chord(int(arguments[0]))
        case "send":
            send(int(arguments[0]))
        case _:
            raise ValueError(action)
    sys.stdout.flush()
    os._exit(0)  # Celery's results complain at exit


if __name__ == "__main__":
    main(*sys.argv[1:])
