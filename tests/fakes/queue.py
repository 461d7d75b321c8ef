"""A broker in memory, for whoever coordinates. Nothing executes: a test plays the workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentcompass.coordinator.ports import (
    AttemptKey,
    Holdings,
    LiveWorker,
    PendingAttempt,
    RunAddress,
)
from agentcompass.errors import BrokerUnreachable


@dataclass(frozen=True)
class Message:
    """What lies in a lane."""

    ref: str
    leg: int
    attempt: PendingAttempt


class FakeQueue:
    """Remembers what it was asked; `lanes`, `leased` and `parked` are for the test to change."""

    def __init__(self) -> None:
        self.is_reachable = True
        self.known: set[str] = set()
        self.lanes: list[Message] = []
        self.leased: set[AttemptKey] = set()
        self.parked: set[AttemptKey] = set()
        self.dispatched: list[tuple[str, int, list[PendingAttempt]]] = []
        self.resent: list[tuple[str, int, list[PendingAttempt]]] = []
        self.finalized: list[tuple[str, int]] = []
        self.nudged: list[str] = []
        self.living: list[LiveWorker] = []
        self.serving: dict[str, list[LiveWorker]] = {}
        """Of single queues; `living` serve all others."""

    def ping(self, timeout_s: float) -> None:
        self._require()

    def dispatch(
        self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt], count: int
    ) -> None:
        self._require()
        sent = list(pending)
        assert len(sent) == count, "the chord's size is fixed before the first message"
        self.known.add(run.ref)
        self.dispatched.append((run.ref, leg, sent))
        self.lanes.extend(Message(run.ref, leg, attempt) for attempt in sent)

    def resend(self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt]) -> None:
        self._require()
        sent = list(pending)
        self.known.add(run.ref)
        self.resent.append((run.ref, leg, sent))
        self.lanes.extend(Message(run.ref, leg, attempt) for attempt in sent)

    def finalize(self, run: RunAddress, leg: int) -> None:
        self._require()
        self.finalized.append((run.ref, leg))

    def holdings(self, run: RunAddress) -> Holdings:
        self._require()
        return Holdings(
            known=run.ref in self.known,
            leased=frozenset(self.leased),
            parked=frozenset(self.parked),
            queued=frozenset(each.attempt.key for each in self.lanes if each.ref == run.ref),
        )

    def workers(self, queue: str) -> Sequence[LiveWorker]:
        self._require()
        return self.serving.get(queue, self.living)

    def nudge(self, run: RunAddress) -> None:
        self._require()
        self.nudged.append(run.ref)

    def forget_everything(self) -> None:
        """Do what FLUSHALL does."""
        self.known.clear()
        self.lanes.clear()
        self.leased.clear()
        self.parked.clear()

    def _require(self) -> None:
        if not self.is_reachable:
            raise BrokerUnreachable("redis://broker:6379/0", "connection refused")
