"""The log of a hostile week, by which its executions are judged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done to the system, and whom it hit."""

    at: float
    name: str
    pids: frozenset[int] = frozenset()
    until: float = 0.0
    """For what lasts."""
    forgets: bool = False
    """Leases may be gone without their holders."""
