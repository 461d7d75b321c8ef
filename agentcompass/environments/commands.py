"""The commands of one environment: those that run, and those that have left something running."""

from __future__ import annotations

import threading

from agentcompass.environments import orphans
from agentcompass.environments.base import ExecResult
from agentcompass.environments.supervised import Order, Supervised


class Commands:
    """Runs commands side by side and knows how to end whatever came of them."""

    def __init__(self) -> None:
        self._running: list[Supervised] = []
        self._lock = threading.Lock()
        self._lost_a_supervisor = False

    def run(self, order: Order, stdin: str | None = None) -> ExecResult:
        """Run a command to its end; what it leaves in the background goes on.

        Raises:
            SupervisorLost: nothing is known about its end.
        """
        self._forget_ended()
        supervised = Supervised(order, stdin)
        is_settled = False
        try:
            with self._lock:
                self._running.append(supervised)
            result, leaves_something = supervised.result()
            is_settled = leaves_something
        finally:
            if not is_settled:
                self._end(supervised)
        return result

    def end_all(self, token: str) -> None:
        """Kill everything that commands started, also what carries no more than the token."""
        with self._lock:
            running = list(self._running)
        for supervised in running:
            self._end(supervised)
        if self._lost_a_supervisor:
            orphans.kill_token(token)
            self._lost_a_supervisor = False

    def _forget_ended(self) -> None:
        with self._lock:
            ended = [each for each in self._running if each.has_ended()]
        for supervised in ended:
            self._end(supervised)

    def _end(self, supervised: Supervised) -> None:
        supervised.close()
        with self._lock:
            self._lost_a_supervisor |= supervised.was_lost
            if supervised in self._running:
                self._running.remove(supervised)
