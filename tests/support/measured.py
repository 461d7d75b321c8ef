"""Sealed runs on disk whose attempts ended as a test says; nothing is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcompass.metrics.extras import bounds
from agentcompass.models.metric import Counts, MetricSeries
from agentcompass.models.request import Request
from agentcompass.models.result import AttemptMeta, AttemptOutcome, AttemptResult
from agentcompass.models.run_info import RunInfo
from agentcompass.models.task import TaskSpec
from agentcompass.runtime.finalize import Finalized, finalize
from agentcompass.store import run_info, tasks
from agentcompass.store.reserve import reserve
from tests.builders import T0, a_contract, a_request, a_result, a_run_info
from tests.support.store_runs import a_root, execute

Outcomes = Mapping[str, Sequence[AttemptOutcome | None]]
"""Task id -> its attempts in order; None = none is made."""


def a_planned_run(
    folder: Path,
    specs: Sequence[TaskSpec],
    request: Request | None = None,
    run_id: str | None = None,
    **sealed: Any,
) -> Path:
    """Return a sealed run in which nothing is done; `sealed` replaces fields of its info."""
    folder.mkdir(exist_ok=True)
    request = request or a_request()
    run_dir = reserve(a_root(folder), ("space",), run_id, T0)
    reserved = RunInfo(run_id=run_dir.name, started_at=T0, request=request)
    run_info.write_reserved(run_dir, reserved)
    run_info.write_params(run_dir, request)
    frozen = tasks.freeze(run_dir, specs)
    planned = a_run_info(request, tasks=frozen.count, run_id=run_dir.name)
    update = {"metric_contract": a_contract(), "tasks_sha256": frozen.sha256, **sealed}
    run_info.seal(run_dir, planned.model_copy(update=update), T0)
    return run_dir


def a_measured_run(
    folder: Path,
    outcomes: Outcomes,
    *,
    strategy: str = "avg",
    categories: Mapping[str, str] | None = None,
    benchmark: str = "bench",
    run_id: str | None = None,
    **sealed: Any,
) -> Path:
    """Return a run whose attempts ended so."""
    specs = [
        TaskSpec(task_id=task_id, question="?", category=(categories or {}).get(task_id))
        for task_id in outcomes
    ]
    k = len(next(iter(outcomes.values())))
    request = a_request(k=k, strategy=strategy, benchmark=benchmark)
    run_dir = a_planned_run(folder, specs, request, run_id, **sealed)
    for task_id, attempts in outcomes.items():
        for number, outcome in enumerate(attempts, start=1):
            if outcome is not None:
                execute(run_dir, task_id, number, ended(task_id, number, outcome))
    return run_dir


def ended(task_id: str, attempt: int, outcome: AttemptOutcome, **telemetry: Any) -> AttemptResult:
    """Return the result of an attempt that ended so."""
    token = f"token-{attempt}"
    result = a_result(task_id, attempt, metrics=outcome.metrics, issues=outcome.issues, token=token)
    meta = AttemptMeta(harness={"telemetry": telemetry} if telemetry else {})
    status = "skipped" if outcome.skipped else result.status
    return result.model_copy(update={"meta": meta, "status": status})


def finalized(run_dir: Path) -> Finalized:
    """Complete the run, whose attempts are all over."""
    done = finalize(run_dir)
    assert isinstance(done, Finalized), done
    return done


def covers(counts: Counts) -> tuple[int, int, int, int, int]:
    """Return (total, evaluated, unavailable, invalidated, error)."""
    return (
        *(counts.total, counts.evaluated, counts.unavailable),
        *(counts.invalidated, counts.error),
    )


def both_readings(series: MetricSeries) -> tuple[float | None, float | None]:
    """Return the value if all tasks without one were failures, and if they were successes."""
    found = bounds(series)
    assert found is not None
    return found.lower, found.upper
