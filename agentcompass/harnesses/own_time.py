"""The time that an agent gives itself: a little less than the runtime gives it."""

from __future__ import annotations

import time
from typing import Final

from agentcompass.models.context import AttemptContext

_SHORTEST_COMMAND_S: Final = 0.1


class OwnTime:
    """Ends before the deadline of the run, so that the agent can still say what it has done."""

    def __init__(self, context: AttemptContext, margin_s: float) -> None:
        """Begin now.

        Args:
            margin_s: so long before the deadline, at most a tenth of what is left.
        """
        left_s = context.deadline_monotonic_s - time.monotonic()
        self._context = context
        self._margin_s = max(0.0, min(margin_s, left_s / 10))

    @property
    def deadline_monotonic_s(self) -> float:
        """Its end on `time.monotonic()`; moves on while the attempt waits for a turn."""
        return self._context.deadline_monotonic_s - self._margin_s

    def left_s(self) -> float:
        """Return what is left of it, negative after its end."""
        return self.deadline_monotonic_s - time.monotonic()

    def command_s(self, most_s: float) -> float:
        """Return how long a command may take that must take no longer than `most_s`."""
        return max(_SHORTEST_COMMAND_S, min(most_s, self.left_s()))
