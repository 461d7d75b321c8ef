"""What the coordinator needs of a queue. `workers.dispatch` has the real one, tests have a fake.

The queue is only a hint: every method may be called twice, by several coordinators at once, and
may lose what it was given without making the report wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from agentcompass.store.root import ResultsRoot

AttemptKey: TypeAlias = tuple[int, int]
"""(byte offset of the task's line in `tasks.jsonl`, attempt number)."""


@dataclass(frozen=True, slots=True)
class RunAddress:
    """One run as workers on other machines find it."""

    root: ResultsRoot
    ref: str
    """Path of the run below the results root, at most 160 bytes; what messages carry."""
    run_dir: Path
    queue: str = "default"
    """The capability lane; only workers started with this queue take the attempts."""
    k: int = 1
    """Attempts per task; shown beside the attempt number ("2/3")."""
    model: str = ""
    """Shown in Flower; never a secret."""


@dataclass(frozen=True, slots=True)
class PendingAttempt:
    """One attempt to send a message for."""

    offset: int
    attempt: int
    task_id: str
    """Only for readable ids; the worker reads the task at `offset`."""

    @property
    def key(self) -> AttemptKey:
        """What leases and messages name it by."""
        return self.offset, self.attempt


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a broker knows of one run at one moment; a hint, already old when it is read."""

    known: bool
    """False if the broker has never heard of this run, for example after it lost its memory."""
    leased: Set[AttemptKey] = frozenset()
    """A live holder executes it."""
    parked: Set[AttemptKey] = frozenset()
    """A delivery that waits for a holder, or for a lower attempt (strategy `pass`)."""
    queued: Set[AttemptKey] = frozenset()
    """A message in a lane, or delivered and not acknowledged."""

    def __contains__(self, key: AttemptKey) -> bool:
        """Return whether somebody or something still takes care of an attempt."""
        return key in self.leased or key in self.parked or key in self.queued

    @property
    def all(self) -> Set[AttemptKey]:
        """Every attempt of which that is true."""
        return self.leased | self.parked | self.queued


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker that takes attempts, as it spoke of itself a moment ago."""

    name: str
    root: str
    """Digest of its results folder; "" while there is none at the path that it was given."""
    results_dir: str
    """That path, on the worker's machine."""


class Queue(Protocol):
    """The broker, as far as coordinators and watchdogs know it.

    Every method may raise `BrokerUnreachable`, with the password masked; none blocks for more
    than about ten seconds without progress.
    """

    def ping(self, timeout_s: float) -> None:
        """Return if the broker answers within `timeout_s`, else raise `BrokerUnreachable`."""

    def dispatch(
        self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt], count: int
    ) -> None:
        """Send one chord: `count` headers in the given order, then the finalizer as callback.

        The broker knows the run from the first call on. Streams `pending` (100,000 of them may
        never be a list); `count` is their exact number, and may be 0 (then the finalizer is sent
        at once). A second call for the same leg sends the same deterministic ids.
        """

    def resend(self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt]) -> None:
        """Send single headers of the leg's chord again, with the ids that they had."""

    def finalize(self, run: RunAddress, leg: int) -> None:
        """Ask some worker to look at the run and complete it if nothing is missing."""

    def holdings(self, run: RunAddress) -> Holdings:
        """List leases, parked deliveries and messages of this run, in pages, of every leg."""

    def workers(self, queue: str) -> Sequence[LiveWorker]:
        """Return the workers that live and take attempts of a queue, as far as is known."""

    def nudge(self, run: RunAddress) -> None:
        """Tell workers that `control/` of this run changed; an accelerator, not a promise."""
