"""Waiting for another process: a condition, a bound, and words for when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = 30) -> None:
    """Return as soon as the condition holds; fail saying what did not happen in time."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.05)
