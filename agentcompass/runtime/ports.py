"""What the life of an attempt needs of the outside: leases, a keeper, and words to answer with.

`workers` implements these; the runtime never learns what a queue is. Nothing here is needed for
correctness: leases and keepers save money and end what hangs, publication decides what counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

StopReason = Literal["cancelled", "lease_lost", "handed_back"]
"""Why an execution is ended from outside before its own deadline.

`cancelled`: its leg was closed, or the attempt was cancelled by name. `lease_lost`: another token
holds the attempt. `handed_back`: this worker goes down; the attempt starts again elsewhere.
"""

KillReason = Literal["setup_timeout", "run_timeout", "collect_timeout", "evaluation_timeout"]
"""The reason that a keeper writes before it kills for a passed hard deadline."""


@dataclass(frozen=True, slots=True)
class LeaseKey:
    """One attempt as the leases know it."""

    root_digest: str
    run_ref: str
    offset: int
    attempt: int


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    """The lease is ours until it is released or its heartbeat ends."""


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """Somebody executes this attempt."""

    worker: str
    token: str
    since: float
    """Unix time, for people."""
    remaining_s: float
    """At most this long until the lease ends if its holder died; the duplicate parks for it."""


class LeasesUnreachable(Exception):
    """No answer from wherever leases are kept; the delivery is handed back."""


class Leases(Protocol):
    """Who executes which attempt. All methods may be called from any thread."""

    def take(self, key: LeaseKey, token: str, *, worker: str) -> LeaseTaken | LeaseHeld:
        """Claim the attempt for this token; the same token again is `LeaseTaken`.

        Raises:
            LeasesUnreachable: after the implementation's own patience.
        """

    def release(self, key: LeaseKey, token: str) -> None:
        """Give the lease up if this token still holds it. Never raises: it ends by itself."""

    def is_lost(self, key: LeaseKey, token: str) -> bool:
        """Return True only if another token is *seen*; unreachable or absent is False."""


LOOK_S: Final = 0.2
"""How long a stop may go unnoticed where nobody may be woken by it."""
_NEVER: Final = threading.Event()


class StopSignal:
    """Asks one execution to end; may be set from any thread or from a signal handler.

    The first reason stays. Listeners are called in the setting thread; they must not block or
    raise. No lock is taken anywhere in here: a signal handler may interrupt its very holder.
    """

    __slots__ = ("_listeners", "reason")

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self._listeners: list[Callable[[], None]] = []

    def request(self, reason: StopReason) -> None:
        """Ask for the end; the executing plug-in code gets an exception that it cannot ignore."""
        if self.reason is None:
            self.reason = reason
        for listener in tuple(self._listeners):
            listener()

    def wait(self, timeout_s: float) -> bool:
        """Sleep for this long; True soon after (or at once if) a stop was requested."""
        until = time.monotonic() + timeout_s
        while self.reason is None and (left_s := until - time.monotonic()) > 0:
            _NEVER.wait(min(left_s, LOOK_S))
        return self.reason is not None

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this on a request; at once if there was one already."""
        self._listeners.append(listener)
        if self.reason is not None:
            listener()

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Forget a listener; unknown ones are ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)


@dataclass(frozen=True, slots=True)
class Execution:
    """One running execution, as a keeper sees it."""

    key: LeaseKey
    token: str
    task_id: str
    leg: int
    run_dir: Path
    attempt_dir: Path
    """Where a kill note goes (`store.attempts.leave_kill_note`)."""
    pid: int
    """The process whose end is the end of this execution."""
    stop: StopSignal = field(default_factory=StopSignal)
    """In-process keepers and signal handlers call `stop.request(reason)`."""


class Watch(Protocol):
    """The keeper's open eye on one execution."""

    def until(self, deadline_monotonic_s: float, reason: KillReason) -> None:
        """Replace the hard deadline: `time.monotonic()` (system-wide), and what to write if it passes.

        Called at every phase; includes the grace in which the execution ends by itself. Cheap.
        """


class Keeper(Protocol):
    """Heartbeat, hard deadline and cancellation of executions, outside of the executing code."""

    def watch(self, execution: Execution) -> AbstractContextManager[Watch]:
        """Watch until the context ends. Entering must be cheap; leaving must never raise.

        While open: keep the lease alive whatever the attempt's code does; end the execution when
        its attempt is cancelled, its lease is lost or its hard deadline has passed. A keeper in
        the executing process can only `stop.request`; one outside leaves a kill note first and
        then kills `pid`.
        """


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a run wants to happen at one place; null means any amount."""

    at_once: int | None = None
    per_minute: int | None = None
    tokens_per_minute: int | None = None
    is_adaptive: bool = False
    """`at_once` is only the most; how many it is now is found out together."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One place in a queue, and then the right to go on, of one execution.

    It lives as long as the lease of its attempt: what a dead holder had comes back by itself.
    """

    place: str
    """What is shared: an endpoint, a kind of environment. Never a secret."""
    holder: LeaseKey
    token: str
    number: int
    """Tells the slots of one execution apart."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The slot is ours until we leave."""

    limit: int | None = None
    """How many could be there at once in this moment; null means any number."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """Others are there, or before us: ask again, which also keeps our place in the queue."""

    again_s: float


class LimitsUnreachable(Exception):
    """No answer from wherever the limits are kept."""


class Limits(Protocol):
    """What all workers may do at once. All methods may be called from any thread.

    Losing their memory loses slots and never a result: a limit may then be passed for a while.
    """

    def enter(self, slot: Slot, bounds: Bounds, tokens: int = 0) -> Admitted | NotYet:
        """Ask for a slot, without waiting. Runs that wait at one place take turns.

        Raises:
            LimitsUnreachable: nobody can tell.
        """

    def leave(self, slot: Slot, bounds: Bounds, tokens: int | None = None) -> None:
        """Give a slot up, or stop waiting for it; `tokens` is what it really took. Never raises."""

    def slow_down(self, slot: Slot, bounds: Bounds, for_s: float) -> None:
        """Let nobody in for so long; an adaptive limit is halved. Never raises."""

    def begin(self, key: LeaseKey, token: str, at_most: int) -> bool:
        """Count an attempt among those of its run that execute; False if there are enough.

        Raises:
            LimitsUnreachable: nobody can tell.
        """

    def end(self, key: LeaseKey, token: str, at_most: int) -> None:
        """Count it no more, and let as many parked attempts begin as there is room for. Never raises."""


@dataclass(frozen=True, slots=True)
class Done:
    """The attempt's end was *seen* on disk; the header may return its constant."""

    state: Literal["published", "was_published", "closed"] = "published"
    wakes: tuple[LeaseKey, ...] = ()
    """Attempts that waited for this one (strategy `pass`): their parked messages are due now."""


@dataclass(frozen=True, slots=True)
class Park:
    """Not now: try this message again in `due_s` seconds; neither chord nor slot notices."""

    due_s: float
    reason: Literal[
        "held",
        "earlier_attempt",
        "lease_lost",
        "died_alone",
        "not_recorded",
        "elsewhere",
        "run_is_full",
    ] = "held"
    at_most: int = 0
    """Of a run that is full: so many of its attempts execute at once."""


@dataclass(frozen=True, slots=True)
class HandBack:
    """This worker cannot; another one may. The message returns to the lane."""

    reason: Literal[
        "other_root",
        "run_not_visible",
        "not_recordable",
        "leases_unreachable",
        "cannot_load",
        "handed_back",
    ]
    message: str = ""
    """One line for the log: what, where, what to do."""
    stops_consuming: bool = False
    """True: this worker could not do any attempt of this kind; it says so and takes no more."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The message's leg is closed, or its run holds no such work: drop it, return nothing."""

    reason: str = ""


Delivered: TypeAlias = Done | Park | HandBack | Stale
