"""Small run directories as other writers would leave them, made by hand from their description.

They are generated, not stored: what is odd about each one can be read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

ISSUE = {"severity": "error", "phase": "run", "code": "run_failed", "message": "it broke"}


def write(path: Path, content: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def their_request(k: int = 1, strategy: str = "avg") -> dict[str, object]:
    return {
        "benchmark": {"id": "toy", "params": {"secret": "********"}},
        "environment": {"id": "host_process", "require_startup_env": False},
        "execution": {"attempts": {"k": k, "strategy": strategy}, "max_retries": 0},
        "harness": {"id": "toy_harness"},
        "model": {"api_key": "********", "id": "org/model"},
        "output": {"run_id": "theirs", "run_name": ""},
        "runtime": {"reuse": False},
    }


def their_result(
    *,
    status: str = "completed",
    issues: Sequence[Mapping[str, object]] | None = (),
    error: str | None = None,
    **metrics: object,
) -> dict[str, object]:
    result: dict[str, object] = {
        "status": status,
        "metrics": metrics,
        "final_answer": "42",
        "trajectory": {
            "schema_version": "ACTF_v1.0",
            "steps": [{"step_id": 1, "user_content": "?", "started_at": "2026-01-02 03:04:05.6"}],
            "started_at": "2026-01-02 03:04:05.6",
            "finished_at": None,
        },
        "artifacts": {},
        "analysis_result": {},
        "meta": {"benchmark": {}, "harness": {"telemetry": {"n": 1}}},
        "retry_count": 0,
    }
    if issues is not None:
        result["issues"] = list(issues)
    if error is not None:
        result["error"] = error
    return result


def their_run_info(
    run_dir: Path,
    *planned: str,
    k: int = 1,
    strategy: str = "avg",
    schema: str | None = "agentcompass.run_info.v3",
    status: str | None = "completed",
) -> None:
    info: dict[str, object] = {
        "request": their_request(k, strategy),
        "resolved_execution_plans": {name: {"attempts": {"1": {}}} for name in planned},
        "run_id": "theirs",
        "started_at": "2026-01-02T03:04:05+00:00",
    }
    if schema is not None:
        info["schema_version"] = schema
    if status is not None:
        info |= {"status": status, "finished_at": "2026-01-02T03:04:09"}
    write(run_dir / "run_info.json", info)


def their_task(
    details: Path,
    task_id: str,
    *results: Mapping[str, object] | None,
    k: int = 1,
    category: str | None = "x",
) -> Path:
    """Write one task below `details/<state>` (or `details`, in the flat layout)."""
    readable = task_id.replace("/", "_")
    directory = details / f"{readable}--{sha256(task_id.encode()).hexdigest()}"
    numbered = {str(n): f"attempt-{n}" for n in range(1, len(results) + 1)}
    task = {"schema_version": "agentcompass.task.v3", "task_id": task_id, "attempts": numbered}
    plan = {"k": k, "strategy": "avg"}
    write(directory / "task.json", {**task, "category": category, "attempt_plan": plan})
    for number, result in enumerate(results, start=1):
        attempt = directory / f"attempt-{number}"
        write(attempt / "checkpoint.json", {"schema_version": "agentcompass.attempt_checkpoint.v1"})
        if result is not None:
            write(attempt / "result.json", result)
    return directory


def their_metrics(run_dir: Path, *series: tuple[str, str, str], k: int = 1) -> None:
    """Write a `metrics.json` with (metric, kind, role) and no more than our reader looks at."""
    made = [
        {"metric_id": name, "kind": kind, "role": role, "series_id": f"{name}.native@{k}"}
        for name, kind, role in series
    ]
    report = {"aggregation": "micro_weighted", "k": k, "strategy": "avg", "series": made}
    write(run_dir / "metrics.json", report)


def detail_file(
    run_dir: Path,
    name: str,
    task_id: object,
    *attempts: Mapping[str, object],
    k: int = 1,
    category: str | None = None,
) -> Path:
    """Write one task of the oldest layout."""
    path = run_dir / "details" / f"{name}.json"
    numbered = {str(number): attempt for number, attempt in enumerate(attempts, start=1)}
    record = {"task_id": task_id, "category": category, "k": k, "attempts": numbered}
    write(path, {**record, "attempts_tried": len(attempts)})
    return path


def v1_checkpoint(directory: str, **prepared: object) -> dict[str, object]:
    """Return a checkpoint with the snapshot of a clean agent of task `a`, attempt 1."""
    return {
        "schema_version": "agentcompass.attempt_checkpoint.v1",
        "evaluation": {
            "task_id": "a",
            "attempt": 1,
            "source_evaluation_mode": "none",
            "run_completed": True,
            "artifacts": {"complete": True, "entries": [], "directory": directory},
            "run_result": {"task_id": "a", "issues": [], "artifacts": {"dir": directory}},
            "prepared_task": {"task_id": "a", **prepared},
        },
    }
