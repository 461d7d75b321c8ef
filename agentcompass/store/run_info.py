"""`run_info.json`: the sealed plan of a run, and what became of it.

Until the seal only the coordinator writes it. After it the sealed part never changes, and the rest
(`status`, `finished_at`, `error`, `metric_artifacts`) is a pure function of the sealed part,
`control/`, the results and the metrics: whoever writes it, at whatever moment, writes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from agentcompass.errors import StoreError, UsageError
from agentcompass.models.request import Request
from agentcompass.models.run_info import MetricArtifacts, RunInfo, RunStatus
from agentcompass.store import atomic, control, layout, records, report
from agentcompass.store.legs import Legs
from agentcompass.store.reserve import make_skeleton
from agentcompass.store.scan import RunScan, pending, results_digest, scan
from agentcompass.store.sealed import digest, load, load_sealed

__all__ = [
    "SealedOtherwise",
    "load",
    "load_sealed",
    "planning",
    "refresh",
    "seal",
    "write_params",
    "write_reserved",
]

_LOOKS: Final = 5
"""A refresh that others keep overtaking leaves the last word to them."""


class SealedOtherwise(StoreError):
    """Another coordinator sealed this run with other tasks first; its plan stands."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"{self.path} was planned by another coordinator with a different task list\n"
            f"  do: agentcompass resume {self.path}"
        )


@contextmanager
def planning(run_dir: Path) -> Iterator[None]:
    """Hold the run for planning, from reading the unsealed request to the seal.

    Raises:
        UsageError: another coordinator is planning this very run now.
    """
    with atomic.lock(run_dir / layout.PLANNING_LOCK) as is_ours:
        if not is_ours:
            raise UsageError(
                "another coordinator is planning this run",
                where=str(run_dir),
                hint="wait until it has, then `agentcompass resume`",
            )
        yield


def write_reserved(run_dir: Path, info: RunInfo) -> None:
    """Write the first `run_info.json`: from now on the run exists and can be planned again."""
    atomic.replace(run_dir / layout.RUN_INFO, records.pretty(info))


def write_params(run_dir: Path, request: Request) -> None:
    """Write `params.json`, the compact identity of the run for result tooling.

    The request holds no secret: where one was, there is the name of its variable or the mask.
    """
    params = {
        "benchmark": request.benchmark.model_dump(),
        "model": request.model.model_dump(),
        "execution": {"attempts": request.execution.attempts.model_dump()},
        "output": request.output.model_dump(),
    }
    atomic.replace(run_dir / layout.PARAMS, records.pretty(params))


def seal(run_dir: Path, info: RunInfo, now: datetime) -> RunInfo:
    """Freeze the plan: from now on there is work in this run and its plan never changes.

    The frozen tasks and everything that reuse brought are on disk already. Safe to repeat.

    Args:
        info: with `task_count`, `attempt_count`, `tasks_sha256`, `metric_contract` and
            `resolved_execution_plans` filled in.

    Raises:
        SealedOtherwise: somebody sealed it with other tasks, or the task file is not the one
            that `info` names.
    """
    on_disk = load(run_dir)
    if on_disk.sealed_at is not None:
        if on_disk.tasks_sha256 != info.tasks_sha256:
            raise SealedOtherwise(run_dir)
        return on_disk
    if digest(run_dir) != info.tasks_sha256:
        raise SealedOtherwise(run_dir)
    make_skeleton(run_dir)
    sealed = info.model_copy(update={"sealed_at": now, "status": "running"})
    atomic.replace(run_dir / layout.RUN_INFO, records.pretty(sealed))
    return sealed


def refresh(run_dir: Path, found: RunScan | None = None) -> RunInfo:
    """Compute what follows from the directory and write it if the file says something else.

    Idempotent, and safe beside any number of others that do the same: whoever writes looks again
    afterwards at what others may have written meanwhile, so the last writer knows it all. Cheap
    while there are no metrics: then nothing is listed but `control/`.

    Args:
        found: a scan that the caller has just made, to save one; used if the metrics cover it.

    Raises:
        RunNotSealed: before the seal nothing follows.
    """
    result = load_sealed(run_dir)
    for _ in range(_LOOKS):
        info = load_sealed(run_dir)
        legs, covered = control.legs(run_dir), report.load_covered(run_dir)
        result = _computed(run_dir, info, legs, covered, found)
        if result != info:
            atomic.replace(run_dir / layout.RUN_INFO, records.pretty(result))
        if (legs, covered) == (control.legs(run_dir), report.load_covered(run_dir)):
            break
    return result


def _computed(
    run_dir: Path,
    info: RunInfo,
    legs: Legs,
    covered: MetricArtifacts | None,
    found: RunScan | None,
) -> RunInfo:
    status, error = _status(run_dir, info, legs, covered, found)
    finished_at = None if status == "running" else legs.stopped_at
    if status in {"completed", "failed"} and covered is not None:
        finished_at = covered.generated_at
    return info.model_copy(
        update={
            "status": status,
            "finished_at": finished_at,
            "error": error,
            "metric_artifacts": covered,
        }
    )


def _status(
    run_dir: Path,
    info: RunInfo,
    legs: Legs,
    covered: MetricArtifacts | None,
    found: RunScan | None,
) -> tuple[RunStatus, str]:
    """Return the status and, if it is not a good one, why."""
    current = _covered_scan(run_dir, legs, covered, found)
    if current is not None and not any(True for _ in pending(run_dir, info, current)):
        made = report.load_report(run_dir, report.expected_of(info))
        if made is not None and "partial" not in made.extra:
            if not made.evaluation_failed:
                return "completed", ""
            invalid = made.headline.counts.invalidated
            return "failed", f"{invalid} of {info.task_count} tasks ended with a fatal issue"
    if legs.state == "cancelled":
        return "cancelled", legs.reason
    if legs.is_interrupted:
        return "interrupted", legs.reason
    return "running", ""


def _covered_scan(
    run_dir: Path, legs: Legs, covered: MetricArtifacts | None, found: RunScan | None
) -> RunScan | None:
    """Return a scan of exactly the results that the metrics cover; None if there are others.

    A scan from before the metrics may not know all that they cover, so it proves nothing but
    that they do cover it; a new one is made after `covered` was read.
    """
    if covered is None:
        return None
    for each in (found, None) if found else (None,):
        current = each or scan(run_dir, legs)
        if current.legs == legs and results_digest(current) == covered.results_sha256:
            return current
    return None
