"""`resume`: a run in any state goes on, any number of times, by several at once.

Everything here can be done twice. What is already over is never started again unless asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from agentcompass.coordinator.asking.policy import policy_change
from agentcompass.coordinator.heads import Heads, Malformed
from agentcompass.coordinator.planning.plan import Planned
from agentcompass.coordinator.planning.start import SealedRun, address_of, plan_again, root_of
from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.resuming.rerun import Rerun, chosen, snapshots_of
from agentcompass.coordinator.snapshot import Snapshot, look_at
from agentcompass.coordinator.spending.account import Account
from agentcompass.coordinator.spending.bounds import is_bounded, why_stop
from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.base import JsonObject
from agentcompass.models.request import ExecutionSettings, Request
from agentcompass.models.run_info import (
    AttemptRef,
    ControlAction,
    ControlRecord,
    PolicyChange,
    RunInfo,
)
from agentcompass.runtime.redact import mask_urls
from agentcompass.store import control, filing, layout, run_info
from agentcompass.store.sweep import sweep


@dataclass(frozen=True, slots=True)
class Wish:
    """What a resume was asked to do beyond running what has no result."""

    rerun: Sequence[str] = ()
    """`errored`, `unscored`, `failed` or task ids."""
    quarantine: bool = False
    """Put malformed records aside and run their attempts again."""
    changes: JsonObject = field(default_factory=dict)
    """Policy, shaped like a request file."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run with what would be done to it; nothing has been changed yet but its planning."""

    run_dir: Path
    seen: Snapshot
    reruns: Sequence[Rerun] = ()
    malformed: Sequence[Malformed] = ()
    """To be quarantined."""
    policy: PolicyChange | None = None

    @property
    def queue(self) -> str:
        """Whose workers the work would be sent to."""
        changed = self.policy.runtime if self.policy is not None else None
        return (changed or self.seen.runtime).queue

    @property
    def has_work(self) -> bool:
        """False if every attempt is over and none is to be run again."""
        return bool(self.seen.left or self.reruns or self.malformed)


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that goes on."""

    run: SealedRun
    leg: int
    seen: Snapshot


def examine(
    run_dir: Path,
    wish: Wish,
    *,
    plan: Callable[[Request], Planned],
    now: Callable[[], datetime],
) -> Resumable:
    """Find out what is left to do. A run that was interrupted while it was planned is sealed.

    Raises:
        RunNotFound: it never started.
        Refusal: another writer's run, a change of what is frozen, or a bound that is reached already.
        RecordCorrupt: records of attempts that must be read cannot be; all of them are listed.
    """
    info = _sealed(run_dir, plan, now)
    seen = _look(run_dir, info, wish)
    in_force = info.request.model_copy(
        update={"execution": seen.execution, "runtime": seen.runtime}
    )
    policy = policy_change(in_force, wish.changes)
    settings = policy.execution if policy and policy.execution else seen.execution
    heads = Heads(run_dir, seen, with_checkpoints=True)
    contract = info.metric_contract
    why_agent = snapshots_of(run_dir, seen)
    reruns = chosen(heads, wish.rerun, contract, seen.legs.closed, why_agent) if contract else []
    if heads.malformed and not wish.quarantine:
        raise RecordCorrupt([(each.path, each.reason) for each in heads.malformed])
    ready = Resumable(run_dir, seen, reruns, heads.malformed, policy)
    _refuse_what_stops_at_once(ready, settings, now())
    return ready


def _refuse_what_stops_at_once(
    ready: Resumable, settings: ExecutionSettings, now: datetime
) -> None:
    """Refuse to go on only to be paused again, after workers have begun a few attempts more."""
    if not ready.has_work or not is_bounded(settings):
        return
    again = {(ref.task_id, ref.attempt) for rerun in ready.reruns for ref in rerun.refs}
    account = Account(ready.run_dir, ready.seen.info)
    reason = why_stop(account.spent(ready.seen.found, now, without_errors_of=again), settings)
    if reason:
        raise Refusal(
            "bound_reached",
            reason,
            where=str(ready.run_dir),
            hint="raise it, for example with --budget-usd or --max-errors; or --rerun errored",
        )


def go_on(ready: Resumable, *, reason: str, by: str, at: datetime, broker: str = "") -> Resumed:
    """Record the decision, complete what earlier records left half done, and return the work.

    Without work nothing is recorded: resuming a finished run changes nothing.

    Args:
        broker: who will hand out the new leg, for the record: `EMBEDDED`, or a URL.
    """
    run_dir, info, seen = ready.run_dir, ready.seen.info, ready.seen
    _reopen(run_dir, seen)
    if ready.has_work:
        template = ControlRecord(
            leg=1, action="resume", reason=reason, by=by, at=at, broker=mask_urls(broker)
        )
        record = _Recorder(run_dir, template, ready.policy)
        if ready.malformed:
            _quarantine(ready.malformed, record)
        refs = tuple(ref for rerun in ready.reruns for ref in rerun.refs)
        if refs or not ready.malformed:
            evaluations = tuple(ref for rerun in ready.reruns for ref in rerun.evaluations)
            record("rerun" if refs else "resume", refs, evaluations)
        run_info.refresh(run_dir)
        with suppress(OSError):  # what crashes left costs space and nothing else
            sweep(run_dir)
        seen = look_at(run_dir, info)
        _reopen(run_dir, seen)
    request = info.request.model_copy(update={"runtime": seen.runtime})
    address = address_of(root_of(run_dir), run_dir.resolve(), request)
    return Resumed(SealedRun(address, info), seen.legs.current, seen)


def _sealed(
    run_dir: Path, plan: Callable[[Request], Planned], now: Callable[[], datetime]
) -> RunInfo:
    root_of(run_dir)
    try:
        info = run_info.load(run_dir)
    except FormatUnknown as error:
        raise Refusal(
            "other_writer",
            f"resume goes on with runs of ours, not with format {error.found!r}",
            where=str(error.path),
            hint="`agentcompass report` reads it; a new run can reuse it",
        ) from error
    return info if info.sealed_at is not None else plan_again(run_dir, plan, now=now)


def _look(run_dir: Path, info: RunInfo, wish: Wish) -> Snapshot:
    """Look, and put aside what a quarantine has named but not moved before its process died.

    A listing opens only results of attempts that were reopened; a malformed one of those has lost
    its place already.
    """
    while True:
        try:
            return look_at(run_dir, info)
        except RecordCorrupt as error:
            paths = [path for path, _ in error.problems]
            if not wish.quarantine or any(path.name != layout.RESULT for path in paths):
                raise
            for path in paths:
                _put_aside(path)


class _Recorder:
    """Appends the records of one resume; the policy goes into the first."""

    def __init__(self, run_dir: Path, template: ControlRecord, policy: PolicyChange | None) -> None:
        self._run_dir, self._template, self._policy = run_dir, template, policy

    def __call__(
        self,
        action: ControlAction,
        attempts: Sequence[AttemptRef],
        evaluations: Sequence[AttemptRef] = (),
    ) -> None:
        own = {
            "action": action,
            "attempts": tuple(attempts),
            "evaluations": tuple(evaluations),
            "policy": self._policy,
        }
        self._policy = None
        control.append(
            self._run_dir,
            lambda current: self._template.model_copy(update={**own, "leg": current + 1}),
        )


def _quarantine(malformed: Sequence[Malformed], record: _Recorder) -> None:
    """Record first, then move: a crash in between is completed by the next `--quarantine`."""
    names = dict.fromkeys((each.entry.task_id, each.attempt) for each in malformed)
    record("quarantine", [AttemptRef(task_id=task, attempt=number) for task, number in names])
    for path in dict.fromkeys(each.path for each in malformed):
        _put_aside(path)


def _put_aside(path: Path) -> None:
    with suppress(FileNotFoundError):  # another resume did it
        filing.quarantine(path)


def _reopen(run_dir: Path, seen: Snapshot) -> None:
    """Move results that a record took from their attempts aside; a crash may have stopped it."""
    stale: dict[str, dict[int, int]] = {}
    for (task_id, attempt), leg in seen.legs.reopened.items():
        if not seen.found.is_published(task_id, attempt):
            stale.setdefault(task_id, {})[attempt] = leg
    for task_id, valid_from in stale.items():
        filing.reopen(run_dir, task_id, valid_from)
