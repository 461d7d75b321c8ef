"""How far a run is: numbers that are shown while it goes on, and never recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentcompass.coordinator.planning.start import SealedRun


@dataclass(frozen=True, slots=True)
class Progress:
    """Attempts and tasks of one run at one moment; provisional by nature."""

    done: int
    """Attempts that are over."""
    total: int
    failed_tasks: int
    """Tasks that ended in `error` or `fatal`."""
    eta_s: float | None = None
    """Seconds until the end at the rate seen so far; None while there is none."""


class Observer(Protocol):
    """Whoever shows what a coordinator sees."""

    def progress(self, run: SealedRun, progress: Progress) -> None:
        """Show where a run stands; called every few seconds at most."""

    def say(self, run: SealedRun, message: str) -> None:
        """Show one line about something that happened; each cause is told once."""


class Pace:
    """Estimates the end from what was done since the watching began."""

    def __init__(self, done: int, at_s: float) -> None:
        self._done = done
        self._at_s = at_s

    def eta_s(self, done: int, total: int, at_s: float) -> float | None:
        """Return the seconds left, None before anything was done."""
        more = done - self._done
        elapsed_s = at_s - self._at_s
        if more <= 0 or elapsed_s <= 0:
            return None
        return (total - done) * elapsed_s / more
