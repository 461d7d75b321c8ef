"""What the control records mean, folded in order. Pure.

A *leg* is a stretch of a run between two decisions to go on. The seal opens leg 1; `resume`,
`rerun` and `quarantine` open the next one and leave earlier ones open; `cancel` and `pause` of the
whole run close all legs so far. Messages and results carry their leg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from agentcompass.models.base import Timestamp
from agentcompass.models.request import ExecutionSettings, RuntimeSettings
from agentcompass.models.run_info import ControlAction, ControlRecord

LegsState = Literal["open", "paused", "cancelled"]
AttemptName = tuple[str, int]
"""(task id, attempt number)."""


@dataclass(frozen=True, slots=True)
class Legs:
    """The outcome of all control records so far; equal records give equal legs."""

    current: int = 1
    """The newest leg that was opened."""
    state: LegsState = "open"
    """`paused` or `cancelled` until a later record opens a leg."""
    is_interrupted: bool = False
    """The coordinator of an embedded run was stopped and nobody has resumed since."""
    closed_through: int = 0
    """Legs up to this one are closed."""
    stopped_at: Timestamp | None = None
    """When the run was paused, cancelled or interrupted, while it is."""
    reason: str = ""
    """Why, in the words of whoever did it."""
    execution: ExecutionSettings | None = None
    """Policy of the newest record that changed it; null means as sealed."""
    runtime: RuntimeSettings | None = None
    valid_from: int = 1
    """The leg from which on results count, for attempts without a leg of their own below."""
    reopened: Mapping[AttemptName, int] = field(default_factory=dict)
    """Attempts whose results count only from a later leg on."""
    continued: Mapping[AttemptName, int] = field(default_factory=dict)
    """Attempts that were reopened for their evaluation alone, with the leg from which on their
    snapshots count; it lies before the one from which on their results do."""
    closed: Mapping[AttemptName, str] = field(default_factory=dict)
    """Attempts that were cancelled by name, with the reason."""

    def is_open(self, leg: int) -> bool:
        """Return whether messages of this leg are to be acted on.

        A leg newer than `current` is open: its record was on disk before its first message was
        sent, so it is the share's cache that hides it from us.
        """
        return leg > self.closed_through

    def valid_from_leg(self, task_id: str, attempt: int) -> int:
        """Return the leg from which on a result of this attempt counts; older ones are not its."""
        return self.reopened.get((task_id, attempt), self.valid_from)

    def snapshot_from_leg(self, task_id: str, attempt: int) -> int:
        """Return the leg from which on a snapshot of this attempt counts."""
        name = (task_id, attempt)
        return self.continued.get(name, self.valid_from_leg(*name))

    def is_closed(self, task_id: str, attempt: int) -> bool:
        """Return whether this attempt was cancelled by name; nobody starts it, nobody misses it."""
        return (task_id, attempt) in self.closed


def fold(records: Iterable[ControlRecord], start: Legs | None = None) -> Legs:
    """Return what the records mean, in the order of their numbers, after `start`."""
    legs = start or Legs()
    for record in records:
        legs = _after(legs, record)
    return legs


def _after(legs: Legs, record: ControlRecord) -> Legs:
    return _ACTIONS[record.action](_with_policy(legs, record), record)


def _with_policy(legs: Legs, record: ControlRecord) -> Legs:
    if record.policy is None:
        return legs
    return replace(
        legs,
        execution=record.policy.execution or legs.execution,
        runtime=record.policy.runtime or legs.runtime,
    )


def _resume(legs: Legs, record: ControlRecord) -> Legs:
    return _opened(legs, record.leg)


def _rerun(legs: Legs, record: ControlRecord) -> Legs:
    return _reopened(_opened(legs, record.leg), record)


def _cancel(legs: Legs, record: ControlRecord) -> Legs:
    if not record.attempts:
        return _closed(legs, record, "cancelled")
    names = {(each.task_id, each.attempt): record.reason for each in record.attempts}
    return replace(legs, closed={**legs.closed, **names})


def _pause(legs: Legs, record: ControlRecord) -> Legs:
    return _closed(legs, record, "paused")


def _interrupt(legs: Legs, record: ControlRecord) -> Legs:
    return replace(legs, is_interrupted=True, stopped_at=record.at, reason=record.reason)


def _reuse(legs: Legs, _record: ControlRecord) -> Legs:
    return legs  # says where attempts came from, and changes nothing about legs


def _opened(legs: Legs, leg: int) -> Legs:
    """Open a leg. A record whose leg a cancellation overtook opens nothing."""
    if leg <= legs.closed_through:
        return legs
    return replace(
        legs,
        current=max(legs.current, leg),
        state="open",
        is_interrupted=False,
        stopped_at=None,
        reason="",
    )


def _closed(legs: Legs, record: ControlRecord, state: LegsState) -> Legs:
    """Close all legs so far. A pause does not lift a cancellation, nor does a second one date it."""
    if legs.state == "cancelled" and record.leg <= legs.closed_through:
        return legs
    return replace(
        legs,
        state=state,
        closed_through=max(legs.closed_through, record.leg, legs.current),
        stopped_at=record.at,
        reason=record.reason,
    )


def _reopened(legs: Legs, record: ControlRecord) -> Legs:
    """Take results of earlier legs from the named attempts, or from all if none is named."""
    if not record.attempts:
        return replace(legs, valid_from=record.leg, reopened={}, continued={}, closed={})
    names = {(each.task_id, each.attempt) for each in record.attempts}
    kept = names.intersection((each.task_id, each.attempt) for each in record.evaluations)
    others = {name: leg for name, leg in legs.continued.items() if name not in names}
    return replace(
        legs,
        reopened={**legs.reopened, **dict.fromkeys(names, record.leg)},
        continued={**others, **{name: legs.snapshot_from_leg(*name) for name in kept}},
        closed={name: why for name, why in legs.closed.items() if name not in names},
    )


_ACTIONS: Final[dict[ControlAction, Callable[[Legs, ControlRecord], Legs]]] = {
    "resume": _resume,
    "rerun": _rerun,
    "quarantine": _rerun,
    "cancel": _cancel,
    "pause": _pause,
    "interrupt": _interrupt,
    "reuse": _reuse,
}
