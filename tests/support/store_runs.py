"""Run directories for tests of whoever reads or writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentcompass.metrics.report import build_report
from agentcompass.models.checkpoint import (
    ArtifactManifest,
    Checkpoint,
    SchedulerState,
    SnapshotResult,
)
from agentcompass.models.checkpoint import Snapshot as EvaluationSnapshot
from agentcompass.models.metric import MetricReport
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptResult
from agentcompass.models.run_info import AttemptRef, ControlAction, ControlRecord, RunInfo
from agentcompass.models.task import PreparedTask, TaskSpec
from agentcompass.store import attempts, control, report, run_info, scan, tasks
from agentcompass.store.attempts import AttemptView, StartMark
from agentcompass.store.reserve import reserve
from agentcompass.store.root import ResultsRoot, open_root
from tests.builders import T0, a_request, a_result, a_run_info, a_task

TOKEN = "t" * 16


def a_root(tmp_path: Path) -> ResultsRoot:
    return open_root(tmp_path / "results")


def a_reserved_run(tmp_path: Path, *, k: int = 1, strategy: str = "avg") -> Path:
    """Return a run that was reserved and described, and is planned by nobody."""
    run_dir = reserve(a_root(tmp_path), ("space",), None, T0)
    request = a_request(k=k, strategy=strategy)
    info = RunInfo(run_id=run_dir.name, started_at=T0, request=request)
    run_info.write_reserved(run_dir, info)
    return run_dir


def a_run(
    tmp_path: Path,
    *ids: str,
    k: int = 1,
    strategy: str = "avg",
    specs: Sequence[TaskSpec] | None = None,
) -> Path:
    """Return a sealed run with these tasks (by default `task-1`) and nothing done."""
    run_dir = a_reserved_run(tmp_path, k=k, strategy=strategy)
    finish_planning(run_dir, specs or [a_task(task_id) for task_id in ids or ("task-1",)])
    return run_dir


def finish_planning(run_dir: Path, specs: Sequence[TaskSpec]) -> RunInfo:
    reserved = run_info.load(run_dir)
    run_info.write_params(run_dir, reserved.request)
    frozen = tasks.freeze(run_dir, specs)
    planned = a_run_info(reserved.request, tasks=frozen.count, run_id=run_dir.name)
    return run_info.seal(run_dir, planned.model_copy(update={"tasks_sha256": frozen.sha256}), T0)


def plan_of(run_dir: Path) -> AttemptPlan:
    return run_info.load(run_dir).request.execution.attempts


def a_mark(token: str = TOKEN, *, leg: int = 1, alone: bool = False) -> StartMark:
    return StartMark(token=token, worker="worker@host", leg=leg, at=T0, alone=alone)


def begin(
    run_dir: Path,
    task_id: str = "task-1",
    attempt: int = 1,
    *,
    token: str = TOKEN,
    leg: int = 1,
    valid_from_leg: int = 1,
) -> AttemptView:
    """Begin an execution of one of the run's own tasks."""
    entry = next(each for each in tasks.entries(run_dir) if each.task_id == task_id)
    spec = tasks.read_at(run_dir, entry.offset)
    mark = a_mark(token, leg=leg)
    return attempts.begin(run_dir, spec, plan_of(run_dir), attempt, mark, valid_from_leg)


def publish(run_dir: Path, view: AttemptView, result: AttemptResult | None = None) -> bool:
    """Publish a good result, or the given one, for the attempt of the view."""
    result = result or a_result(view.task_id, view.attempt, token=view.token)
    return attempts.publish(run_dir, view, result, plan_of(run_dir))


def execute(
    run_dir: Path, task_id: str = "task-1", attempt: int = 1, result: AttemptResult | None = None
) -> bool:
    """Begin and publish an attempt, with a good result if none is given."""
    token = result.token if result else f"{TOKEN}-{attempt}"
    return publish(run_dir, begin(run_dir, task_id, attempt, token=token), result)


def a_checkpoint(
    view: AttemptView, *, manifest: ArtifactManifest | None = None, text: str = "4"
) -> Checkpoint:
    return Checkpoint(
        scheduler=SchedulerState(
            state="agent_finished",
            execution=1,
            worker="worker@host",
            token=view.token,
            leg=1,
            started_at=T0,
            updated_at=T0,
        ),
        evaluation=EvaluationSnapshot(
            task_id=view.task_id,
            attempt=view.attempt,
            mode="none",
            run_completed=True,
            run_result=SnapshotResult(task_id=view.task_id, final_answer=text),
            prepared_task=PreparedTask(task_id=view.task_id),
            artifacts=manifest or ArtifactManifest(),
        ),
    )


def decide(run_dir: Path, action: ControlAction, *names: tuple[str, int]) -> ControlRecord:
    """Append a control record as the coordinator does."""
    opens = action in {"resume", "rerun", "quarantine"}
    refs = tuple(AttemptRef(task_id=task, attempt=attempt) for task, attempt in names)
    return control.append(
        run_dir,
        lambda current: ControlRecord(
            leg=current + opens, action=action, attempts=refs, reason="why", by="me", at=T0
        ),
    )


def reduce(run_dir: Path) -> MetricReport:
    """Return the report that the directory gives now."""
    info = run_info.load(run_dir)
    assert info.metric_contract is not None
    plan = info.request.execution.attempts
    return build_report(info.metric_contract, plan, scan.outcomes(run_dir, info))


def write_report(run_dir: Path) -> RunInfo:
    """Reduce and write, as a finalizer does, and return what the run then says of itself."""
    info = run_info.load(run_dir)
    coverage = scan.Coverage(scan.results_digest(scan.scan(run_dir)), T0)
    assert info.metric_contract is not None
    plan = info.request.execution.attempts
    found = scan.outcomes(run_dir, info, coverage=coverage)
    made = build_report(info.metric_contract, plan, found)
    report.write_report(run_dir, made, "# summary\n", coverage=coverage)
    return run_info.refresh(run_dir)
