"""Adds up a run's published results, each read once: the directory is the only book (law 1)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from agentcompass.coordinator.spending.bounds import Spent, wall_time_s
from agentcompass.errors import AgentCompassError
from agentcompass.metrics.usage import Spend
from agentcompass.models.run_info import RunInfo
from agentcompass.store import control, disk, evidence, layout, results
from agentcompass.store.legs import Legs
from agentcompass.store.names import task_dirname
from agentcompass.store.results import ResultHead
from agentcompass.store.scan import RunScan

Name = tuple[str, int]
"""(directory of the task, attempt number)."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One attempt that is over, with its discarded tries."""

    cost_usd: float
    tokens: int
    is_cost_known: bool
    are_tokens_known: bool
    is_own: bool
    is_error: bool


@dataclass(slots=True)
class Account:
    """What one run has spent; reads only what is new since the last look."""

    run_dir: Path
    info: RunInfo
    _legs: Legs | None = None
    _entries: dict[Name, _Entry] = field(default_factory=dict)
    _last_ends: dict[int, datetime] = field(default_factory=dict)

    def spent(
        self,
        found: RunScan,
        now: datetime,
        *,
        without_errors_of: Set[tuple[str, int]] = frozenset(),
    ) -> Spent:
        """Return what has been spent by now.

        Args:
            found: a listing that was just made.
            without_errors_of: attempts (task id, number) that are to be run again.
        """
        if found.legs != self._legs:  # results may have lost their place to others
            self._entries.clear()
            self._legs = found.legs
        self._read(found)
        forgiven = {(task_dirname(task_id), number) for task_id, number in without_errors_of}
        own = [entry for entry in self._entries.values() if entry.is_own]
        return Spent(
            cost_usd=sum(entry.cost_usd for entry in self._entries.values()),
            tokens=sum(entry.tokens for entry in self._entries.values()),
            cost_unknown=sum(not entry.is_cost_known for entry in self._entries.values()),
            tokens_unknown=sum(not entry.are_tokens_known for entry in self._entries.values()),
            wall_time_s=self._wall_time_s(now),
            over=len(own),
            errors=sum(
                entry.is_error for name, entry in self._entries.items() if name not in forgiven
            ),
        )

    def _read(self, found: RunScan) -> None:
        for dirname, task in found.tasks.items():
            for number in task.published:
                if (dirname, number) in self._entries:
                    continue
                entry = self._entry(layout.task_path(self.run_dir, task.state, dirname), number)
                if entry is None and (moved := disk.find(self.run_dir, dirname)):
                    entry = self._entry(moved[1], number)
                if entry is not None:
                    self._entries[dirname, number] = entry

    def _entry(self, task_dir: str, number: int) -> _Entry | None:
        """Return what one attempt cost; None if it cannot be read now, for example while it moves."""
        directory = f"{task_dir}/{layout.attempt_dirname(number)}"
        try:
            head = results.load_outcome(f"{directory}/{layout.RESULT}")
        except (FileNotFoundError, AgentCompassError):
            return None  # `check` names what is malformed
        spends = [each.spend for each in evidence.discarded(directory)]
        if not disk.is_directory(directory):
            return None  # tries that were moved meanwhile would be forgotten for good
        is_own = not head.reused_from and not head.outcome.skipped
        if is_own:
            self._note_end(head)
            if not head.agent_from:
                spends.append(head.spend)
        known = [each for each in spends if each is not None]
        return _Entry(
            cost_usd=sum(each.cost_usd or 0.0 for each in known),
            tokens=sum(_tokens(each) for each in known),
            is_cost_known=all(each is not None and each.cost_usd is not None for each in spends),
            are_tokens_known=all(
                each is not None and None not in (each.input_tokens, each.output_tokens)
                for each in spends
            ),
            is_own=is_own,
            is_error=is_own and any(each.is_failure for each in head.outcome.issues),
        )

    def _note_end(self, head: ResultHead) -> None:
        if head.finished_at is not None:
            known = self._last_ends.get(head.leg, head.finished_at)
            self._last_ends[head.leg] = max(known, head.finished_at)

    def _wall_time_s(self, now: datetime) -> float:
        began = self.info.sealed_at or self.info.started_at
        return wall_time_s(began, control.control_records(self.run_dir), self._last_ends, now)


def _tokens(spend: Spend) -> int:
    return (spend.input_tokens or 0) + (spend.output_tokens or 0)
