"""`status`: where a run stands, from its directory alone; provisional, and marked so."""

from __future__ import annotations

import fcntl
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from agentcompass.coordinator.heads import Heads, outcomes_of
from agentcompass.coordinator.planning.start import EMBEDDED
from agentcompass.coordinator.snapshot import Snapshot, look_at
from agentcompass.errors import StoreError
from agentcompass.metrics.report import PartialNote, build_report
from agentcompass.metrics.validate import ReportInvalid
from agentcompass.models.metric import MetricReport
from agentcompass.models.result import TaskOutcomes
from agentcompass.models.run_info import ControlRecord, RunInfo
from agentcompass.store import control, sealed
from agentcompass.store.caught_up import caught_up
from agentcompass.store.foreign import (
    ForeignRun,
    foreign_outcomes,
    is_foreign,
    open_foreign,
)
from agentcompass.store.report import expected_of, load_report

_BROKER_FILE: Final = ".broker"
"""An embedded broker holds a lock on it as long as it lives."""


@dataclass(frozen=True, slots=True)
class Status:
    """One run at one moment."""

    path: Path
    run_id: str
    state: str
    """As `run_info.status`, or `planning`, `paused`, `unknown` (another writer's that never ended)."""
    reason: str = ""
    """Why it is not simply running or completed, in the words of whoever decided."""
    leg: int = 1
    tasks: int = 0
    done: int = 0
    """Attempts that are over."""
    total: int = 0
    failed_tasks: int = 0
    """Tasks that ended in `error` or `fatal`."""
    eta_s: float | None = None
    """At the rate of the present leg; None while there is none, or nothing is going on."""
    report: MetricReport | None = None
    """What the results so far reduce to; `extra.partial` unless the run is over."""
    is_attended: bool | None = None
    """Of an embedded run that goes on: False if its coordinator is gone, so that nothing happens
    until a resume. None: its broker is one of the user's own, and only that could tell."""
    malformed: tuple[tuple[Path, str], ...] = ()
    """Results that cannot be read, left out of everything above."""

    @property
    def is_over(self) -> bool:
        """True if every attempt is over."""
        return self.total > 0 and self.done >= self.total

    @property
    def is_complete(self) -> bool:
        """True if nothing is to be waited for; what another writer says of itself is not enough."""
        return self.state in {"completed", "failed"} and self.done >= self.total


def status(run_dir: Path, now: datetime, sleep: Callable[[float], object] | None = None) -> Status:
    """Return where a run stands. Reads every result without its trajectory; changes nothing.

    Args:
        sleep: waits before the run is listed again, if its report covers more than is in sight.

    Raises:
        RunNotFound: it never started.
        RecordCorrupt, FormatUnknown: what it says about itself cannot be relied on.
    """
    if is_foreign(run_dir):
        return _of_foreign(open_foreign(run_dir))
    info = sealed.load(run_dir)
    if info.sealed_at is None:
        return Status(run_dir, info.run_id, "planning", "interrupted, or still going on")
    return _of_ours(run_dir, _seen(run_dir, info, sleep), now)


def _seen(run_dir: Path, info: RunInfo, sleep: Callable[[float], object] | None) -> Snapshot:
    seen = look_at(run_dir, info)
    if seen.left and caught_up(run_dir, info, seen.found, sleep) is not seen.found:
        return look_at(run_dir, sealed.load(run_dir))
    return seen


def _of_ours(run_dir: Path, seen: Snapshot, now: datetime) -> Status:
    info = seen.info
    heads = Heads(run_dir, seen)
    pace = _Pace(seen.legs.current)
    state = _state(seen)
    outcomes = pace.outcomes(heads, info.request.execution.attempts.k)
    report = _reduced(run_dir, seen, outcomes, state)
    if heads.malformed:  # known only now that all are read: then the report that is there is none
        state = _state(seen, unreadable=len(heads.malformed))
        report = None if report is None or "partial" not in report.extra else report
    eta_s = None
    if state == "running" and seen.left:
        eta_s = pace.eta_s(seen.left, (now - _leg_began(run_dir, info)).total_seconds())
    return Status(
        path=run_dir,
        run_id=info.run_id,
        state=state,
        reason=seen.legs.reason or _reason(info, state),
        leg=seen.legs.current,
        tasks=info.task_count or 0,
        done=seen.done - len(heads.malformed),
        total=seen.total,
        failed_tasks=seen.failed_tasks,
        eta_s=eta_s,
        report=report,
        is_attended=_is_attended(run_dir, info) if state == "running" else None,
        malformed=tuple((each.path, each.reason) for each in heads.malformed),
    )


class _Pace:
    """Counts the results of the present leg while somebody else reads them."""

    def __init__(self, leg: int) -> None:
        self._leg = leg
        self._done = 0

    def outcomes(self, heads: Heads, k: int) -> Iterator[TaskOutcomes]:
        for entry, found in heads:
            self._done += sum(head.leg >= self._leg for head in found.values())
            yield outcomes_of(entry, found, k)

    def eta_s(self, left: int, elapsed_s: float) -> float | None:
        return left * elapsed_s / self._done if self._done and elapsed_s > 0 else None


def _leg_began(run_dir: Path, info: RunInfo) -> datetime:
    """Return when the present leg was opened: by the newest such record, else by the seal."""
    opened = _opening(run_dir)
    return opened.at if opened else info.sealed_at or info.started_at


def _is_attended(run_dir: Path, info: RunInfo) -> bool | None:
    """Look whether the process that holds an embedded run's broker lives: it holds a lock."""
    opened = _opening(run_dir)
    if (opened.broker if opened else info.broker) != EMBEDDED:
        return None
    try:
        with (run_dir / _BROKER_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:  # a share without locks
        return None
    return False


def _opening(run_dir: Path) -> ControlRecord | None:
    """Return the record that opened the present leg; None in the first one."""
    opened = [
        record
        for record in control.control_records(run_dir)
        if record.action in {"resume", "rerun", "quarantine"}
    ]
    return opened[-1] if opened else None


def _reason(info: RunInfo, state: str) -> str:
    if state == info.status:
        return info.error
    was_over = info.status in {"completed", "failed"} and state == "running"
    return "a result that its report covers is missing or malformed" if was_over else ""


def _state(seen: Snapshot, *, unreadable: int = 0) -> str:
    """Return the state as the directory shows it; the file may be behind, and is not written."""
    if not seen.left + unreadable and seen.info.status in {"completed", "failed"}:
        return seen.info.status
    if seen.legs.state != "open":
        return seen.legs.state
    return "interrupted" if seen.legs.is_interrupted else "running"


def _reduced(
    run_dir: Path, seen: Snapshot, outcomes: Iterator[TaskOutcomes], state: str
) -> MetricReport | None:
    """Return the report that is there if the run is over, else what the results so far reduce to.

    None where that takes a plug-in: a benchmark's own formula is not guessed.
    """
    info = seen.info
    is_over = state in {"completed", "failed"}
    made = _present(run_dir, info) if is_over else None
    if made is not None or info.metric_contract is None or info.custom_aggregation:
        deque(outcomes, maxlen=0)  # for the pace, and for what is malformed
        return made
    return build_report(
        info.metric_contract,
        info.request.execution.attempts,
        outcomes,
        aggregation=info.aggregation,
        category_hierarchy=info.category_hierarchy,
        partial=None if is_over else PartialNote(status=state, missing=seen.left),
    )


def _present(run_dir: Path, info: RunInfo) -> MetricReport | None:
    try:
        return load_report(run_dir, expected_of(info))
    except (ReportInvalid, StoreError):
        return None  # `check` says what is wrong, `report` makes it again


def _of_foreign(run: ForeignRun) -> Status:
    outcomes = list(foreign_outcomes(run))
    total = len(run.tasks) * run.attempts.k
    done = sum(outcome is not None for task in outcomes for outcome in task.attempts)
    report = build_report(
        run.contract,
        run.attempts,
        outcomes,
        aggregation=run.aggregation,
        partial=PartialNote(status=run.status or "unknown", missing=total - done)
        if done < total
        else None,
    )
    return Status(
        path=run.run_dir,
        run_id=run.run_id,
        state=run.status or "unknown",
        reason=run.error,
        tasks=len(run.tasks),
        done=done,
        total=total,
        failed_tasks=sum(task.state in {"error", "fatal"} for task in run.tasks),
        report=report,
    )
