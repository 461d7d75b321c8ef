"""Time as an argument: what a coordinator needs of a clock."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The wiring has the real one; a test has one that stands still until it is told."""

    def now(self) -> datetime:
        """Return the current time, aware."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""

    def wait(self, seconds: float) -> None:
        """Wait so long, or less if somebody asked for a stop."""
