"""What is done with an attempt while its lease is held: look, decide, act, publish."""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agentcompass.errors import AttemptFailure, FormatUnknown, RecordCorrupt, UsageError
from agentcompass.models.checkpoint import Checkpoint
from agentcompass.models.issue import Issue
from agentcompass.models.result import AttemptResult
from agentcompass.runtime.bookkeeping import others_go_on
from agentcompass.runtime.calling.interrupts import Stopped
from agentcompass.runtime.delivery.alone_process import AloneProcess, DiedAlone
from agentcompass.runtime.delivery.decide import Decision, Facts, NotExecuted, alone_deaths, decide
from agentcompass.runtime.delivery.job import Job
from agentcompass.runtime.execute import execute, with_issues
from agentcompass.runtime.execution import records
from agentcompass.runtime.execution.failures import failure_of
from agentcompass.runtime.issues import issue
from agentcompass.runtime.ports import (
    Delivered,
    Done,
    Execution,
    HandBack,
    Keeper,
    LeaseKey,
    Leases,
    Park,
    Stale,
    StopReason,
    StopSignal,
)
from agentcompass.runtime.values.cleaning import rewritten
from agentcompass.store import artifacts, attempts, control
from agentcompass.store.attempts import AttemptView

logger: Final = logging.getLogger(__name__)

LEASE_LOST_S: Final = 5.0
"""The successor is at work; the message comes back to see its result."""
DIED_ALONE_S: Final = 1.0
NOT_RECORDED_S: Final = 60.0
CANNOT_LOAD_LIMIT: Final = 2
"""So often an attempt is passed on because a worker lacks its plug-in; then that is recorded."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


@dataclass(slots=True)
class Held:
    """One attempt whose lease is ours."""

    job: Job
    leases: Leases
    keeper: Keeper
    is_needed: bool
    """False if strategy `pass` has seen a success in a lower attempt."""
    wakes: tuple[LeaseKey, ...]
    """Whose messages wait for this attempt's end."""

    def work(self) -> Delivered:
        """Do what is to be done; the start mark says how it ended, unless nobody knows."""
        view = self.job.begin()
        try:
            return self._act(view, self._decision(view))
        except Stopped as stopped:
            return self._stopped(view, stopped.reason)
        except OSError as error:
            with suppress(OSError):
                attempts.close_mark(view, self.job.token, "not_recorded")
            return not_recorded(error, self.job.site.work_dir)

    def _decision(self, view: AttemptView) -> Decision:
        facts = Facts(
            leg=self.job.message.leg,
            is_published=view.is_published,
            planning_failed=self.job.plan.failure is not None,
            is_needed=self.is_needed,
            marks=view.marks,
            kill_note=view.kill_note,
            valid_from_leg=self.job.valid_from_leg,
        )
        decision = decide(facts)
        # The snapshot is read and its files are digested only if everything else says "execute".
        if decision.action == "execute" and self.job.usable_snapshot(view) is not None:
            decision = decide(replace(facts, has_usable_snapshot=True))
        return decision

    def _act(self, view: AttemptView, decision: Decision) -> Delivered:
        match decision.action:
            case "done":
                return Done("was_published", self.wakes)
            case "evaluate" | "execute" if decision.alone:
                return self._execute_alone(view)
            case "evaluate" | "execute" as action:
                return self._execute_here(view, resume=action == "evaluate")
            case why:
                return self._publish(view, self._record(view, why))

    def _record(self, view: AttemptView, why: NotExecuted) -> AttemptResult:
        """Return the record of an attempt that is not executed (again)."""
        match why:
            case "publish_killed":
                return self._killed(view)
            case "publish_skipped":
                return records.skipped(self.job.identity, self.job.site.now())
            case "publish_planning_failure":
                return self._not_executed(self.job.plan.failure)
            case "publish_worker_lost":
                deaths = alone_deaths(view.marks, self.job.message.leg)
                return self._not_executed(records.worker_lost(deaths))

    def _execute_here(self, view: AttemptView, *, resume: bool) -> Delivered:
        execution = self._execution(view, os.getpid())
        with self.keeper.watch(execution) as watch:
            try:
                attempt = self.job.attempt(view, watch, execution.stop)
            except UsageError as error:
                return self._cannot_load(view, error)
            except AttemptFailure as failure:
                return self._publish(view, self._not_executed(failure_of(failure, "open").issue))
            snapshot = self.job.usable_snapshot(view) if resume else None
            self.job.put_aside(view, snapshot)
            return self._publish(view, execute(attempt, snapshot))

    def _execute_alone(self, view: AttemptView) -> Delivered:
        self.job.mark_alone(view)
        with AloneProcess(self.job) as process:
            execution = self._execution(view, process.pid)
            with self.keeper.watch(execution) as watch:
                try:
                    with others_go_on():
                        record = process.execute(watch, execution.stop)
                except UsageError as error:
                    return self._cannot_load(view, error)
                except DiedAlone as death:
                    # Its mark stays open, which is what counts its deaths.
                    logger.warning("%s alone: %s", self._name(), death)
                    return Park(DIED_ALONE_S, "died_alone")
                return self._publish(view, record)

    def _execution(self, view: AttemptView, pid: int) -> Execution:
        return Execution(
            key=self.job.key,
            token=self.job.token,
            task_id=self.job.spec.task_id,
            leg=self.job.message.leg,
            run_dir=self.job.run.run_dir,
            attempt_dir=view.directory,
            pid=pid,
            stop=StopSignal(),
        )

    def _publish(self, view: AttemptView, record: AttemptResult) -> Delivered:
        """Publish unless another has taken over; the disk decides if two do it at once."""
        run_dir, token = self.job.run.run_dir, self.job.token
        if self.leases.is_lost(self.job.key, token) or self._was_put_aside(record):
            raise Stopped("lease_lost")
        legs = control.legs(run_dir)
        if legs.valid_from_leg(record.task_id, record.attempt) > record.leg:
            attempts.keep_execution(view, token)
            attempts.close_mark(view, token, "reopened")
            return Stale("the attempt was reopened while it was executed")
        plan = self.job.run.attempt_plan
        try:
            won = attempts.publish(run_dir, view, record, plan)
        except TypeError:
            # Nothing should get here that JSON cannot hold; a finished attempt must not be lost
            # if something does.
            won = attempts.publish(run_dir, view, with_issues(*rewritten(record)), plan)
        return Done("published" if won else "was_published", self.wakes)

    def _was_put_aside(self, record: AttemptResult) -> bool:
        """Return whether somebody took our artifacts for those of the dead: then he executes now."""
        manifest = record.artifacts.get("manifest")
        directory = manifest.get("directory") if isinstance(manifest, dict) else None
        run_dir = self.job.run.run_dir
        return bool(directory) and not artifacts.is_in_place(run_dir, str(directory))

    def _stopped(self, view: AttemptView, reason: StopReason) -> Delivered:
        token, task_id = self.job.token, self.job.spec.task_id
        attempts.close_mark(view, token, reason)
        if reason == "handed_back":
            # A snapshot stays where it is: the next execution begins with the evaluation.
            return HandBack("handed_back", f"{self._name()} starts again elsewhere")
        if reason == "lease_lost":
            attempts.keep_unfinished(view, token)
            return Park(LEASE_LOST_S, "lease_lost")
        attempts.keep_execution(view, token)
        legs = control.legs(self.job.run.run_dir)
        if legs.is_closed(task_id, self.job.message.attempt):
            return Done("closed", self.wakes)
        return Stale("cancelled")

    def _cannot_load(self, view: AttemptView, error: UsageError) -> Delivered:
        """Let another worker try, which may have the plug-in; the third one records the failure."""
        text = self.job.secrets()(str(error))
        passed_on = sum(1 for mark in view.marks if mark.closed == "cannot_load")
        if passed_on < CANNOT_LOAD_LIMIT:
            attempts.close_mark(view, self.job.token, "cannot_load")
            return HandBack("cannot_load", text)
        why = issue("fatal", "setup", "setup_failed", text)
        return self._publish(view, self._not_executed(why))

    def _killed(self, view: AttemptView) -> AttemptResult:
        note = view.kill_note
        if note is None:
            raise ValueError("there is no kill note")
        found = _checkpoint(view) if note.reason == "evaluation_timeout" else None
        checkpoint = found if found and found.scheduler.token == note.token else None
        if checkpoint is not None:
            attempts.write_snapshot(view, self.job.continued(checkpoint, view))
        started = next((mark.at for mark in view.marks if mark.token == note.token), None)
        now = self.job.site.now()
        return records.killed(
            self.job.identity, (started or self.job.started_at, now), note.reason, checkpoint
        )

    def _not_executed(self, why: Issue | None) -> AttemptResult:
        if why is None:
            raise ValueError("there is no reason not to execute")
        times = (self.job.started_at, self.job.site.now())
        return records.without_execution(self.job.identity, times, why)

    def _name(self) -> str:
        return f"{self.job.message.run} {self.job.spec.task_id} a{self.job.message.attempt}"


def _checkpoint(view: AttemptView) -> Checkpoint | None:
    try:
        return attempts.load_checkpoint(view.directory)
    except (RecordCorrupt, FormatUnknown):
        return None  # then the agent's work is lost; `check` names the file


def not_recorded(error: OSError, work_dir: Path) -> Delivered:
    """Return what becomes of a message whose run cannot be written now.

    Args:
        work_dir: the worker's own; if the error is about something in there, it says so.
    """
    is_own = isinstance(error.filename, str) and Path(error.filename).is_relative_to(work_dir)
    place = "this worker's own working area" if is_own else "the results folder"
    text = f"{place} cannot be written: {error}"
    if error.errno in _FULL:
        return HandBack("not_recordable", f"{text}; make room, then resume", stops_consuming=True)
    logger.warning("%s", text)
    return Park(NOT_RECORDED_S, "not_recorded")
