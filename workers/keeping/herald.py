"""Tells coordinators that this worker lives, and which results folder it has.

Looks at the share, so it has a thread of its own: a share that hangs makes a worker unheard of,
which is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from agentcompass.errors import ResultsDirUnusable
from agentcompass.store.root import find_root
from workers.broker.client import UNREACHABLE
from workers.broker.presence import Presence, Word


class Herald:
    """Speaks for one worker."""

    def __init__(
        self,
        presence: Presence,
        queues: Sequence[str],
        who: tuple[str, str],
        results_dir: Path,
        period_s: float,
        is_leaving: Callable[[], bool],
    ) -> None:
        """Take what it says.

        Args:
            who: the instance, and the name that people know.
            period_s: after the last word the worker counts as living for so long.
            is_leaving: it takes no more messages.
        """
        self._presence = presence
        self._queues = queues
        self._instance, self._name = who
        self._results_dir = results_dir
        self._period_s = period_s
        self._is_leaving = is_leaving
        self._next_s = 0.0
        self._said: Word | None = None

    def tick(self, now_s: float) -> None:
        """Say it when it is due, four times before anybody forgets it."""
        if self._is_leaving():
            self.fall_silent()
        elif now_s >= self._next_s:
            self._next_s = now_s + self._period_s / 4
            self._say()

    def _say(self) -> None:
        word = Word(self._instance, self._name, self._root(), str(self._results_dir))
        with suppress(*UNREACHABLE):
            if self._said is not None and word != self._said:
                self._withdraw(self._said)
            self._said = word
            for queue in self._queues:
                self._presence.say(queue, word, self._period_s)

    def fall_silent(self) -> None:
        """Say that this worker takes no more messages; any number of times, and never raises."""
        with suppress(*UNREACHABLE):
            if self._said is not None:
                self._withdraw(self._said)
                self._said = None

    def _withdraw(self, word: Word) -> None:
        for queue in self._queues:
            self._presence.withdraw(queue, word)

    def _root(self) -> str:
        try:
            root = find_root(self._results_dir)
        except ResultsDirUnusable:
            return ""
        return root.digest if root is not None else ""
