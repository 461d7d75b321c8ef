"""A source against the tasks of a new run: what would be taken, before anything is reserved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcompass.coordinator.deserving import refuse_unknown, why_again, why_agent_again
from agentcompass.coordinator.refusal import Refusal
from agentcompass.coordinator.reuse.decide import Rules, TaskChoice, TaskFacts, decide
from agentcompass.coordinator.reuse.differences import differences
from agentcompass.models.base import JsonObject
from agentcompass.models.metric import MetricContract
from agentcompass.models.plan import EvaluationMode, ResolvedPlans, ReusedPlans
from agentcompass.models.request import AttemptPlan, Request, ReuseSettings
from agentcompass.models.result import AttemptOutcome
from agentcompass.models.run_info import ReuseSource
from agentcompass.models.task import TaskSpec
from agentcompass.runtime.phases.usable import why_unusable
from agentcompass.store.artifacts import verify_artifacts
from agentcompass.store.foreign_checkpoints import without_masks
from agentcompass.store.reuse.materialize import Taking, materialize
from agentcompass.store.reuse.plans import PlanCopy
from agentcompass.store.reuse.read import AttemptFound, TaskFound, read_task
from agentcompass.store.reuse.source import Source


class SourceMalformed(Refusal):
    """Records of the source that must be read and cannot; all of them are in `problems`."""

    def __init__(self, run_dir: Path, problems: Sequence[tuple[Path, str]]) -> None:
        named = [f"  {path}: {reason}" for path, reason in problems]
        super().__init__(
            "record_corrupt",
            "\n".join([f"{len(problems)} malformed record(s) in the source", *named]),
            where=str(run_dir),
            hint="--skip-malformed runs the tasks of these records again",
        )
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class New:
    """The run that is to have it, as planned."""

    request: Request
    contract: MetricContract
    plans: ResolvedPlans
    tasks: Iterable[TaskSpec]
    """Can be iterated any number of times."""
    benchmark_sha256: str | None = None

    @property
    def settings(self) -> ReuseSettings:
        """What was asked for."""
        return self.request.reuse or ReuseSettings()


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a new run takes over; nothing has been written yet."""

    source: Source
    choices: Sequence[TaskChoice]
    """In the order of the new run's tasks."""
    differences: Sequence[JsonObject]
    plans: ReusedPlans | None
    malformed: Sequence[tuple[Path, str]] = ()
    """Skipped, because that was asked for."""
    kind: Literal["reuse", "evaluate"] = "reuse"

    @property
    def is_useful(self) -> bool:
        """False if everything runs all the same."""
        return any({"take", "evaluate"} & set(choice.deeds) for choice in self.choices)

    @property
    def record(self) -> ReuseSource:
        """What `run_info.json` says of it."""
        return ReuseSource(
            run_id=self.source.run_id,
            path=str(self.source.run_dir.resolve()),
            kind=self.kind,
            differences=tuple(self.differences),
            tasks=sum(choice.is_whole for choice in self.choices),
            attempts=sum(len(choice.numbers("take")) for choice in self.choices),
            evaluations=sum(len(choice.numbers("evaluate")) for choice in self.choices),
        )

    @property
    def begun(self) -> ReuseSource:
        """What it says before anything is written: an interrupted planning needs no more."""
        path = str(self.source.run_dir.resolve())
        return ReuseSource(run_id=self.source.run_id, path=path, kind=self.kind)

    @property
    def missing(self) -> Sequence[tuple[str, int, str]]:
        """Where only evaluations are to run: (task id, attempt, why its agent would have to)."""
        return [
            (choice.task_id, number, why)
            for choice in self.choices
            for number, why in choice.missing
        ]

    def write(self, run_dir: Path, new: New) -> None:
        """Write what is taken into a run that is not sealed yet. Safe to repeat."""
        plan = new.request.execution.attempts
        takings = (
            Taking(spec, choice.state, choice.deeds, self._mode_of(new, spec))
            for spec, choice in zip(new.tasks, self.choices, strict=True)
            if choice.code not in {"not_in_source", "malformed"}
        )
        materialize(run_dir, self.source, takings, plan=plan, contract=new.contract)

    def _mode_of(self, new: New, spec: TaskSpec) -> EvaluationMode | None:
        """Return the mode in which snapshots are evaluated here; None: in their own."""
        return (
            new.plans.plan_of(spec.task_id, 1).evaluation_mode if self.kind == "evaluate" else None
        )


def refuse_other(source: Source, request: Request) -> None:
    """Refuse a source whose results cannot be this run's.

    Raises:
        Refusal: `benchmark_differs` or `attempts_differ`, with both values.
    """
    only_evaluate = request.reuse is not None and request.reuse.only_evaluate
    if source.benchmark_id != request.benchmark.id and not only_evaluate:
        raise Refusal(
            "benchmark_differs",
            f"the source's benchmark.id is {source.benchmark_id!r}, "
            f"the new run's is {request.benchmark.id!r}",
            where=f"benchmark.id ({source.run_dir})",
            hint="only runs of the same benchmark can be reused",
        )
    plan = request.execution.attempts
    is_same = source.attempts == plan
    if not (is_same or (source.is_any_strategy and source.attempts.k == plan.k)):
        raise Refusal(
            "attempts_differ",
            f"the source's execution.attempts is {_said(source.attempts)}, "
            f"the new run's is {_said(plan)}",
            where=f"execution.attempts ({source.run_dir})",
            hint="give -k and --strategy of the source, or start without --reuse",
        )


def examine(source: Source, new: New) -> Reuse:
    """Decide for every task of the new run what becomes of it.

    Raises:
        Refusal: the source is of another benchmark or plan.
        SourceMalformed: records that must be read cannot be, and were not to be skipped.
        UsageError: a task to be run again is none of the new run.
    """
    refuse_other(source, new.request)
    examiner = _Examiner(source, new)
    choices = [examiner.choice(spec) for spec in new.tasks]
    settings = new.settings
    refuse_unknown(settings.rerun, [choice.task_id for choice in choices], "--rerun")
    malformed = (*source.malformed, *examiner.malformed)
    if malformed and not settings.skip_malformed:
        raise SourceMalformed(source.run_dir, malformed)
    found = differences(source.request, new.request, is_ours=source.info is not None)
    if examiner.changed:
        found.append({"field": "tasks", "changed": list(examiner.changed)})
    before = source.info.benchmark_sha256 if source.info is not None else None
    if before and new.benchmark_sha256 and before != new.benchmark_sha256:
        code: JsonObject = {"source": before, "now": new.benchmark_sha256}
        found.append({"field": "benchmark.sha256", **code})
    kind: Literal["reuse", "evaluate"] = "evaluate" if settings.only_evaluate else "reuse"
    return Reuse(source, choices, found, examiner.plans.collected(), malformed, kind)


class _Examiner:
    """Reads the source task by task; keeps nothing of a task but its choice."""

    def __init__(self, source: Source, new: New) -> None:
        self.malformed: list[tuple[Path, str]] = []
        self.changed: list[str] = []
        self.plans = PlanCopy(source)
        self._source = source
        self._new = new
        settings = new.settings
        self._rules = Rules(
            plan=new.request.execution.attempts,
            contract=new.contract,
            keep_errors=settings.keep_errors,
            require_same_tasks=settings.require_same_tasks,
            only_evaluate=settings.only_evaluate,
            keep_missing=settings.keep_missing,
        )

    def choice(self, spec: TaskSpec) -> TaskChoice:
        """Return what becomes of one task, and note what is wrong with it."""
        found = read_task(self._source, spec, self._new.contract)
        malformed = (*found.malformed, *self._damaged(found))
        self.malformed.extend(malformed)
        if found.is_changed:
            self.changed.append(spec.task_id)
        outcomes = dict(self._outcomes(found))
        wanted, contract = self._new.settings.rerun, self._new.contract
        choice = decide(
            TaskFacts(
                task_id=spec.task_id,
                is_there=bool(found.attempts),
                malformed=f"{malformed[0][0]} {malformed[0][1]}" if malformed else "",
                is_changed=found.is_changed,
                why_again=why_again(spec.task_id, outcomes, wanted, contract),
                why_agent_again=why_agent_again(spec.task_id, outcomes, wanted, contract),
                outcomes=outcomes,
                snapshots=dict(self._snapshots(found, spec)),
            ),
            self._rules,
        )
        for number in choice.numbers("take"):
            result = found.attempts[number].result
            was_reused = result is not None and bool(result.reused_from)
            self.plans.add(spec.task_id, number, was_reused=was_reused)
        return choice

    def _outcomes(self, found: TaskFound) -> Iterator[tuple[int, AttemptOutcome]]:
        for number, attempt in found.attempts.items():
            if attempt.result is not None:
                result = attempt.result
                yield (
                    number,
                    AttemptOutcome(
                        metrics=result.metrics,
                        issues=result.issues,
                        skipped=result.status == "skipped",
                    ),
                )

    def _snapshots(self, found: TaskFound, spec: TaskSpec) -> Iterator[tuple[int, str]]:
        for number, attempt in found.attempts.items():
            if attempt.checkpoint is not None and attempt.checkpoint.evaluation is not None:
                yield number, self._why_unusable(attempt, spec)

    def _why_unusable(self, attempt: AttemptFound, spec: TaskSpec) -> str:
        checkpoint, number = attempt.checkpoint, attempt.number
        plan = self._new.plans.plan_of(spec.task_id, number)
        first_leg = self._source.legs.snapshot_from_leg(spec.task_id, number)
        snapshot = checkpoint.evaluation if checkpoint is not None else None
        is_free = self._new.settings.only_evaluate and plan.evaluation_mode != "reuse"
        if is_free and snapshot is not None and snapshot.mode != "reuse":
            # What the agent left is the same in both of the other modes.
            plan = plan.model_copy(update={"evaluation_mode": snapshot.mode})
        why = why_unusable(checkpoint, spec.task_id, number, plan, first_leg)
        if why or snapshot is None:
            return why
        if self._source.info is None and without_masks(snapshot.prepared_task, spec) is None:
            return "its writer masked a part of the prepared task"
        problems = verify_artifacts(self._source.run_dir, snapshot.artifacts)
        return problems[0] if problems else ""

    def _damaged(self, found: TaskFound) -> Iterator[tuple[Path, str]]:
        """Yield results whose artifacts are not what was collected, as far as we can tell."""
        for attempt in found.attempts.values():
            snapshot = attempt.checkpoint.evaluation if attempt.checkpoint is not None else None
            is_published = attempt.result is not None and attempt.directory is not None
            if self._source.info is None or snapshot is None or not is_published:
                continue
            if not snapshot.run_completed:
                continue
            problems = verify_artifacts(self._source.run_dir, snapshot.artifacts)
            for problem in problems[:1]:
                yield (attempt.directory or Path(), f"has other artifacts than recorded: {problem}")


def _said(plan: AttemptPlan) -> str:
    return f"k={plan.k} {plan.strategy}"
