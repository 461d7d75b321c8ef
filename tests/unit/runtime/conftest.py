from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from agentcompass.runtime.calling.interrupts import Limit
from agentcompass.runtime.ports import StopSignal

T = TypeVar("T")


def a_limit(seconds: float = 30.0, stop: StopSignal | None = None) -> Limit:
    """Return a limit that is impatient, so that tests of what hangs are short."""
    return Limit(
        time.monotonic() + seconds, seconds, stop or StopSignal(), repeat_s=0.05, grace_s=0.3
    )


class Elsewhere:
    """Executes in a thread that is not the main one, as the threads pool does."""

    def __call__(self, fn: Callable[[], T]) -> T:
        ended: list[Callable[[], T]] = []

        def run() -> None:
            try:
                value = fn()
                ended.append(lambda: value)
            except BaseException as error:  # noqa: BLE001 - it is raised again below
                kept = error
                ended.append(lambda: _raise(kept))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return ended[0]()


def _raise(error: BaseException) -> T:  # type: ignore[type-var]  # it never returns
    raise error


@pytest.fixture(params=["main", "thread"])
def pool(request: pytest.FixtureRequest) -> Callable[[Callable[[], T]], T]:
    """Both kinds of slot that a worker can have."""
    return Elsewhere() if request.param == "thread" else lambda fn: fn()
