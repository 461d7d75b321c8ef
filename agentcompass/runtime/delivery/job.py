"""One delivery that may execute: what is known of it before and after its lease was taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.models.checkpoint import Checkpoint, Snapshot
from agentcompass.models.message import AttemptMessage
from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.task import TaskSpec
from agentcompass.runtime.calling.interrupts import Stopped
from agentcompass.runtime.delivery.run_cache import LoadedRun
from agentcompass.runtime.execution.attempt import Attempt, Identity
from agentcompass.runtime.limits import Turns
from agentcompass.runtime.phases.usable import why_unusable
from agentcompass.runtime.ports import LeaseKey, StopSignal, Watch
from agentcompass.runtime.site import Site
from agentcompass.runtime.values.live import note
from agentcompass.runtime.values.masking import Masker
from agentcompass.store import atomic, attempts, disk, evidence, layout, marks
from agentcompass.store.attempts import AttemptView
from agentcompass.store.legs import Legs
from agentcompass.store.marks import StartMark
from agentcompass.store.views import until_it_stays, where


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt in this worker's hands."""

    message: AttemptMessage
    run: LoadedRun
    spec: TaskSpec
    plan: ExecutionPlan
    legs: Legs
    token: str
    site: Site
    started_at: datetime

    @property
    def key(self) -> LeaseKey:
        """The attempt as the leases know it."""
        own = self.message
        return LeaseKey(own.root, own.run, own.offset, own.attempt)

    @property
    def valid_from_leg(self) -> int:
        """The leg from which on a result is this attempt's."""
        return self.legs.valid_from_leg(self.spec.task_id, self.message.attempt)

    @property
    def identity(self) -> Identity:
        """The names of this execution."""
        return Identity(
            run_id=self.run.info.run_id,
            task_id=self.spec.task_id,
            attempt=self.message.attempt,
            leg=self.message.leg,
            token=self.token,
            worker=self.site.worker,
        )

    def begin(self, *, alone: bool = False) -> AttemptView:
        """Make the start mark, then list the attempt; safe to repeat."""
        return attempts.begin(
            self.run.run_dir,
            self.spec,
            self.run.attempt_plan,
            self.message.attempt,
            self._mark(alone=alone),
            self.valid_from_leg,
        )

    def mark_alone(self, view: AttemptView) -> None:
        """Say in the start mark that this execution has a process of its own."""

        def once() -> None:
            directory = where(view)
            atomic.remove(directory / layout.started_name(self.token))
            marks.put(str(directory), self._mark(alone=True))

        until_it_stays(view.run_dir, once)

    def usable_snapshot(self, view: AttemptView) -> Snapshot | None:
        """Return the snapshot from which only the evaluation is to run, every checksum verified.

        Raises:
            Stopped: that took its time, and whoever left the snapshot lives after all: the attempt
                has a result by now.
        """
        if not view.has_checkpoint:
            return None
        snapshot = self._snapshot(view)
        number, first_leg = self.message.attempt, self.valid_from_leg
        if snapshot is None and attempts.is_published(
            self.run.run_dir, self.spec.task_id, number, first_leg
        ):
            raise Stopped("lease_lost")
        return snapshot

    def _snapshot(self, view: AttemptView) -> Snapshot | None:
        try:
            checkpoint = attempts.load_checkpoint(view.directory)
        except (RecordCorrupt, FormatUnknown):
            return None  # then the agent runs again
        own = self.message
        first_leg = self.legs.snapshot_from_leg(self.spec.task_id, own.attempt)
        if why_unusable(checkpoint, self.spec.task_id, own.attempt, self.plan, first_leg):
            return None
        snapshot = checkpoint.evaluation if checkpoint is not None else None
        if snapshot is None or attempts.verify_artifacts(self.run.run_dir, snapshot.artifacts):
            return None
        return snapshot

    def put_aside(self, view: AttemptView, resumed: Snapshot | None) -> None:
        """Move what other executions have left to the evidence, but for what is continued."""
        if not view.marks:
            return
        left = set(disk.directories(view.directory / layout.ARTIFACTS))
        checkpoint = evidence.checkpoint_token(view.directory) if view.has_checkpoint else None
        if checkpoint is not None and resumed is None:
            left.add(checkpoint)
        kept = resumed.artifacts.directory.rpartition("/")[2] if resumed is not None else ""
        for token in left - {kept, self.token}:
            attempts.keep_execution(view, token)

    def continued(self, checkpoint: Checkpoint, view: AttemptView) -> Checkpoint:
        """Return another execution's checkpoint as ours: with a result, only its own one counts."""
        own = {
            "token": self.token,
            "leg": self.message.leg,
            "worker": self.site.worker,
            "execution": len(view.marks) + 1,
            "updated_at": self.site.now(),
        }
        scheduler = checkpoint.scheduler.model_copy(update=own)
        return checkpoint.model_copy(update={"scheduler": scheduler})

    def attempt(self, view: AttemptView, watch: Watch, stop: StopSignal) -> Attempt:
        """Return what the phases are handed.

        Raises:
            UsageError: this worker cannot load a plug-in of the plan.
            AttemptFailure: it lacks a secret that a plug-in needs.
        """
        # First: whatever a plug-in logs while it is loaded is masked already.
        secrets = self.secrets()
        parts = self.run.parts_of(self.spec.task_id, self.message.attempt, self.plan, self.site)
        return Attempt(
            identity=self.identity,
            run_dir=self.run.run_dir,
            spec=self.spec,
            plan=self.plan,
            contract=self.run.contract,
            parts=parts,
            view=view,
            site=self.site,
            watch=watch,
            stop=stop,
            secrets=secrets,
            started_at=self.started_at,
            turns=self._turns(stop),
            limits=self.run.settings_under(self.legs).limits,
            earlier_retries=_earlier_retries(view),
        )

    def secrets(self) -> Masker:
        """Return what masks the live secrets of this attempt and of its worker."""
        environ = self.site.environ
        names = self.run.secret_names_of(self.spec.task_id, self.message.attempt, self.plan)
        own = {name: value for name, value in self.spec.env.items() if value.startswith("${")}
        wanted = {*names, *(value[2:-1] for value in own.values())}
        live = {name: environ[name] for name in sorted(wanted) if name in environ}
        note(live)
        return Masker(live, self.site.secrets)

    def _turns(self, stop: StopSignal) -> Turns | None:
        limits = self.site.limits
        return Turns(limits, self.key, self.token, stop) if limits is not None else None

    def _mark(self, *, alone: bool) -> StartMark:
        own = self.message
        mark = StartMark(self.token, self.site.worker, own.leg, self.started_at)
        return replace(mark, alone=alone)


def _earlier_retries(view: AttemptView) -> int:
    """Return how many tries earlier executions discarded; without one there is nothing to list."""
    if not view.marks:
        return 0
    kept = disk.directories(view.directory / layout.RETRIES)
    return sum(1 for name in kept if name.startswith(layout.RETRY))
