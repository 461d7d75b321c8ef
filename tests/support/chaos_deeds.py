"""The log of a hostile week, by which its executions are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done to the system, and whom it hit."""

    at: float
    name: str
    pids: frozenset[int] = frozenset()
    until: float = 0.0
    """For what lasts; may be before `at`, which is when it is written down."""
    forgets: bool = False
    """Leases may be gone without their holders."""

    @property
    def begin(self) -> float:
        return min(self.at, self.until or self.at)

    @property
    def end(self) -> float:
        return max(self.at, self.until)

    def hit(self, line: Mapping[str, Any]) -> bool:
        """Return whether it struck who executed this, or one of those above him."""
        return not self.pids.isdisjoint({line["pid"], *line["above"]})
