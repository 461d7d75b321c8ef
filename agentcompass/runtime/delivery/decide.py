"""What to do with an attempt after its lease was taken and its directory was listed. Pure.

The rules, first match first:

1. It has a result that counts: nothing is left to do.
2. Planning it failed: publish that failure.
3. Strategy `pass` does not need it: publish `skipped`.
4. A keeper killed its last execution at a hard deadline: publish that, do not execute.
5. It ended its process `MAX_ALONE_DEATHS` times in this leg although it was alone: publish
   FATAL `worker_lost`.
6. Its agent has finished and a usable snapshot says so: evaluate.
7. Execute; alone, in a process of its own, if any earlier execution ended without a word.

A start mark is *open* if nobody knows how its execution ended: no reason was written, no kill
note, no result. The kill note of an earlier leg stands only if the attempt was not reopened since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from agentcompass.runtime.execution.records import is_timeout
from agentcompass.store.marks import KillNote, StartMark

MAX_ALONE_DEATHS: Final = 3

NotExecuted: TypeAlias = Literal[
    "publish_planning_failure", "publish_skipped", "publish_killed", "publish_worker_lost"
]
Action: TypeAlias = Literal["done", "evaluate", "execute"] | NotExecuted


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when the decision is made."""

    leg: int
    """Of the message."""
    is_published: bool = False
    planning_failed: bool = False
    is_needed: bool = True
    """False if strategy `pass` has seen a success in a lower attempt."""
    marks: Sequence[StartMark] = ()
    """Of other executions."""
    kill_note: KillNote | None = None
    valid_from_leg: int = 1
    has_usable_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and where."""

    action: Action
    alone: bool = False
    """In a process of its own: the attempt may take its process with it."""


def decide(facts: Facts) -> Decision:
    """Return what the rules above say."""
    if facts.is_published:
        return Decision("done")
    record = _without_executing(facts)
    if record is not None:
        return Decision(record)
    alone = any(mark.closed is None for mark in facts.marks)
    return Decision("evaluate" if facts.has_usable_snapshot else "execute", alone)


def alone_deaths(marks: Sequence[StartMark], leg: int) -> int:
    """Return how often the attempt ended a process of its own in this leg."""
    return sum(1 for mark in marks if mark.alone and mark.closed is None and mark.leg == leg)


def _without_executing(facts: Facts) -> NotExecuted | None:
    if facts.planning_failed:
        return "publish_planning_failure"
    if not facts.is_needed:
        return "publish_skipped"
    note = facts.kill_note
    if note is not None and is_timeout(note.reason) and note.leg >= facts.valid_from_leg:
        return "publish_killed"
    if alone_deaths(facts.marks, facts.leg) >= MAX_ALONE_DEATHS:
        return "publish_worker_lost"
    return None
