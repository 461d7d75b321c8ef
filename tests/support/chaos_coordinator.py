"""`python -m tests.support.chaos_coordinator WHEN ARGUMENTS…`: the command line, with a death date.

WHEN is `taking:N` (N tasks of a source have been taken over), `planning` (the tasks are frozen, the
run is not sealed), `before`, `during:N` (N messages of the chord are out) or `after` the dispatch. Then
it gets SIGKILL.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from agentcompass.cli.main import main
from agentcompass.store import run_info
from agentcompass.store.reuse import materialize
from workers import dispatch
from workers.broker.wire import Envelope


def die(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die_at(when: str) -> None:
    """Let this process die when it gets there."""
    moment, _, number = when.partition(":")
    match moment:
        case "taking":
            _die_taking(int(number))
        case "planning":
            run_info.seal = die
        case "before":
            dispatch.RedisQueue.dispatch = die  # type: ignore[method-assign]  # that is the fault
        case "during":
            _die_during(int(number))
        case "after":
            _die_after()
        case _:
            raise ValueError(when)


def _die_taking(count: int) -> None:
    original = materialize._write_task
    numbers = itertools.count()

    def some(*arguments: Any) -> bool:
        if next(numbers) >= count:
            die()
        return original(*arguments)

    materialize._write_task = some  # type: ignore[assignment]  # that is the fault


def _die_during(count: int) -> None:
    headers = dispatch.headers

    def some(*arguments: Any) -> Iterator[Envelope]:
        for number, header in enumerate(headers(*arguments)):
            if number >= count:
                die()
            yield header

    dispatch._BATCH = 10  # type: ignore[misc]  # that is the fault: some batches are out
    dispatch.headers = some  # type: ignore[assignment]  # see above


def _die_after() -> None:
    original = dispatch.RedisQueue.dispatch

    def dispatched(*arguments: Any) -> None:
        original(*arguments)
        die()

    dispatch.RedisQueue.dispatch = dispatched  # type: ignore[method-assign, assignment]  # see above


if __name__ == "__main__":
    die_at(sys.argv.pop(1))
    main()
