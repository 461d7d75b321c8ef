"""Runs that are complete without having been executed: written in one go, without fsync."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import orjson

from agentcompass.coordinator.planning.plan import plan
from agentcompass.coordinator.planning.start import start
from agentcompass.models.request import Request
from agentcompass.models.result import AttemptMeta, AttemptResult
from agentcompass.models.run_info import RunInfo
from agentcompass.models.task import TaskSpec
from agentcompass.models.trajectory import AssistantContent, Step, Trajectory
from agentcompass.runtime.finalize import finalize
from agentcompass.store import attempts, layout, records, results, tasks
from agentcompass.store.root import open_root

SMALL_BYTES = 1_200
"""Makes a result of about 2 kB."""


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)


def make_run(
    folder: Path,
    count: int,
    *,
    done: int | None = None,
    trajectory_bytes: int = SMALL_BYTES,
    is_final: bool = True,
    run_id: str | None = None,
) -> Path:
    """Return the directory of a run of `count` tasks, of which `done` are over (null: all)."""
    request = Request.model_validate(
        {
            "benchmark": {"id": "bench.plugins:NoopBenchmark", "params": {"count": count}},
            "harness": {"id": "bench.plugins:NoopHarness"},
            "model": {"id": "noop"},
            "output": {"run_id": run_id},
        }
    )
    with plan(request) as planned:
        sealed = start(open_root(folder), planned, now=now, announce=lambda _: None)
    run_dir = sealed.address.run_dir
    trajectory = _trajectory(trajectory_bytes)
    for entry in tasks.entries(run_dir):
        if done is None or entry.index < done:
            _write_task(run_dir, tasks.read_at(run_dir, entry.offset), sealed.info, trajectory)
    if is_final and done is None:
        finalize(run_dir)
    return run_dir


def _write_task(run_dir: Path, spec: TaskSpec, info: RunInfo, trajectory: Trajectory) -> None:
    directory = layout.task_dir(run_dir, "normal", spec.task_id)
    attempt = directory / layout.attempt_dirname(1)
    attempt.mkdir(parents=True)
    record = attempts.task_record(spec, info.request.execution.attempts)
    directory.joinpath(layout.TASK).write_bytes(records.compact(record))
    attempt.joinpath(layout.RESULT).write_bytes(results.to_bytes(_result(spec, trajectory)))


def _result(spec: TaskSpec, trajectory: Trajectory) -> AttemptResult:
    token = hashlib.sha256(spec.task_id.encode()).hexdigest()[:32]
    return AttemptResult(
        task_id=spec.task_id,
        attempt=1,
        token=token,
        worker="made@bench",
        started_at=now(),
        finished_at=now(),
        status="completed",
        # Two thirds are right, in no order.
        metrics={"correct": token[0] < "b"},
        final_answer="nothing",
        artifacts={},
        meta=AttemptMeta(harness={"telemetry": {"input_tokens": 812, "output_tokens": 95}}),
        trajectory=trajectory,
    )


def _trajectory(size_bytes: int) -> Trajectory:
    """Return one of about this size, in steps of at most 10 kB."""
    texts = ["All work and no play. " * (min(size_bytes, 10_000) // 22)] * max(
        1, size_bytes // 10_000
    )
    steps = (
        Step(step_id=number, assistant_content=AssistantContent(content=text))
        for number, text in enumerate(texts, start=1)
    )
    return Trajectory(steps=tuple(steps))


def result_bytes(run_dir: Path) -> int:
    """Return the size of one result of a made run."""
    found = next(run_dir.glob("details/*/*/attempt-1/result.json")).read_bytes()
    orjson.loads(found)
    return len(found)
