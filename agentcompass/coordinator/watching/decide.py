"""The decisions of whoever watches a run, without its I/O: a look in, commands out.

No clock, no network, no disk. Looks may be late, stale or false, and any number of watchdogs may
decide at once: a message too many costs one look of a worker at the directory, because the lease
and publication decide what counts. What must not happen is that a lost attempt stays lost.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from agentcompass.coordinator.ports import AttemptKey, Holdings


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """How patient a watchdog is; seconds."""

    lease_s: float = 30.0
    """After a holder's last sign of life its lease ends."""
    look_every_s: float = 60.0
    """The broker is asked what it holds at most this often: a lane may have 100,000 messages."""
    resend_limit_s: float = 480.0
    """The back-off between two messages for the same attempt doubles from `lease_s` up to this."""
    finalize_after_s: float = 10.0
    """How long the callback of a complete run may take before somebody else finalizes."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a run.

    The directory was read *after* the broker: what moves on meanwhile is then seen in its later
    place, and a finished attempt is never taken for a lost one.
    """

    at_s: float
    """On a clock that never goes back."""
    is_open: bool
    """False while the run is paused or cancelled."""
    unfinished: Collection[AttemptKey]
    """Planned, without a terminal result, not cancelled by name; in the order of dispatch."""
    is_final: bool
    """The metrics cover the results as they are."""
    holdings: Holdings | None = None
    """None: the broker was not asked, or does not answer, which proves nothing."""
    failed_tasks: int = 0
    """Tasks that ended in `error` or `fatal`."""
    max_failed_tasks: int | None = None
    """The error policy in force; null means none."""
    why_stop: str = ""
    """Which budget or error policy is reached; "" if none is."""


@dataclass(frozen=True, slots=True)
class Resend:
    """Nobody and nothing takes care of these attempts any more: send their messages again."""

    keys: tuple[AttemptKey, ...]


@dataclass(frozen=True, slots=True)
class Finalize:
    """Every attempt is over, and the report does not cover them: make it."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A budget or the error policy is reached: hand out nothing more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The report is there; there is nothing more to watch."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run was paused or cancelled, and nothing of it is executing any more."""


Command: TypeAlias = Resend | Finalize | Pause | Finished | Stopped


class Watchdog:
    """Watches one leg of one run. Remembers only what it has sent and since when it waits."""

    def __init__(self, policy: WatchPolicy) -> None:
        self._policy = policy
        self._unknown_since_s: float | None = None
        self._next_finalize_s: float | None = None
        self._finalize_wait_s = policy.finalize_after_s
        self._sent: dict[AttemptKey, tuple[float, float]] = {}
        """Attempt -> (not again before, the wait after that)."""

    def handle(self, look: Look) -> list[Command]:
        """Return what to do about what was seen, in order."""
        self._remember(look)
        if not look.unfinished:
            return self._complete(look)
        self._next_finalize_s = None
        if not look.is_open:
            is_executing = look.holdings is None or bool(look.holdings.leased)
            return [] if is_executing else [Stopped()]
        if look.max_failed_tasks is not None and look.failed_tasks >= look.max_failed_tasks:
            return [
                Pause(
                    f"{look.failed_tasks} tasks failed, max_failed_tasks is {look.max_failed_tasks}"
                )
            ]
        if look.why_stop:
            return [Pause(look.why_stop)]
        lost = self._lost(look)
        return [Resend(lost)] if lost else []

    def _complete(self, look: Look) -> list[Command]:
        if look.is_final:
            return [Finished()]
        if self._next_finalize_s is None:
            self._next_finalize_s = look.at_s + self._policy.finalize_after_s
            self._finalize_wait_s = self._policy.finalize_after_s
        if look.at_s < self._next_finalize_s:
            return []
        self._finalize_wait_s = min(2 * self._finalize_wait_s, self._policy.resend_limit_s)
        self._next_finalize_s = look.at_s + self._finalize_wait_s
        return [Finalize()]

    def _lost(self, look: Look) -> tuple[AttemptKey, ...]:
        if look.holdings is None or not self._is_believed(look.at_s):
            return ()
        held, due = look.holdings, self._is_due
        lost = tuple(key for key in look.unfinished if key not in held and due(key, look))
        for key in lost:
            _, wait_s = self._sent.get(key, (0.0, self._policy.lease_s))
            longer_s = min(2 * wait_s, self._policy.resend_limit_s)
            self._sent[key] = (look.at_s + wait_s, longer_s)
        return lost

    def _remember(self, look: Look) -> None:
        """Note since when the broker does not know the run."""
        if look.holdings is None:
            return
        if look.holdings.known:
            self._unknown_since_s = None
        elif self._unknown_since_s is None:
            self._unknown_since_s = look.at_s

    def _is_believed(self, at_s: float) -> bool:
        """Give live holders one lease period to claim again at a broker that forgot the run."""
        since_s = self._unknown_since_s
        return since_s is None or at_s - since_s >= self._policy.lease_s

    def _is_due(self, key: AttemptKey, look: Look) -> bool:
        return key not in self._sent or look.at_s >= self._sent[key][0]
