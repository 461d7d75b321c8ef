"""A plan becomes a run directory: reserved, described, frozen, sealed, in this order.

A crash at any point leaves something that `resume` goes on with. Only after the seal is there work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from agentcompass.coordinator.ports import RunAddress
from agentcompass.coordinator.reuse.choose import frozen_reuse
from agentcompass.errors import RunExists, RunNotFound, UsageError
from agentcompass.models.request import Request
from agentcompass.models.run_info import RunInfo
from agentcompass.runtime.redact import mask_urls
from agentcompass.store import layout, reserve, run_info, tasks
from agentcompass.store.names import namespace_of, safe_component
from agentcompass.store.root import ResultsRoot, find_root, refuse_unusable, run_ref

if TYPE_CHECKING:  # looking at a run needs this module, but not the plug-ins
    from agentcompass.coordinator.planning.plan import Planned

Reserve: TypeAlias = Callable[[ResultsRoot, Sequence[str], str | None, datetime], Path]
"""As `store.reserve.reserve`."""
EMBEDDED: Final = "embedded"
"""Recorded where a URL would stand: a private broker, gone with its coordinator."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run directory is made, beyond what its request says."""

    request_name: str | None = None
    """Of a named request of a launch; its runs go by that name."""
    reserve: Reserve = reserve.reserve
    """`reserve.adopt` for an id that a launch has recorded before."""


ANYWHERE: Final = Place()


@dataclass(frozen=True, slots=True)
class SealedRun:
    """A run with work in it, and where workers find it."""

    address: RunAddress
    info: RunInfo


def check_place(request: Request, request_name: str | None = None) -> None:
    """Raise UsageError if the request's names cannot be a place; nothing is touched."""
    reserve.check_place(namespace_of(request, request_name), request.output.run_id)


def refuse_place(results_dir: Path, request: Request) -> None:
    """Refuse the place that `start` would refuse, touching nothing: for a dry run.

    Raises:
        UsageError, RunExists, ResultsDirUnusable: as `start`.
    """
    check_place(request)
    refuse_unusable(results_dir)
    namespace, run_id = namespace_of(request), request.output.run_id
    if run_id is not None and reserve.is_taken(results_dir, namespace, run_id):
        raise RunExists(results_dir.joinpath(*namespace, safe_component(run_id)))


def start(
    root: ResultsRoot,
    planned: Planned,
    *,
    now: Callable[[], datetime],
    announce: Callable[[Path], None],
    broker: str = "",
    place: Place = ANYWHERE,
) -> SealedRun:
    """Reserve a directory and freeze the plan in it.

    Args:
        now: returns the current time, aware.
        announce: is told the directory as soon as it exists, before anything else can fail.
        broker: who will hand it out, for the record: `EMBEDDED`, or a URL.
        place: of a named request of a launch.

    Raises:
        RunExists, ResultsDirUnusable, UsageError: nothing was reserved.
    """
    request = planned.request
    started_at = now()
    namespace = namespace_of(request, place.request_name)
    run_dir = place.reserve(root, namespace, request.output.run_id, started_at)
    announce(run_dir)
    with run_info.planning(run_dir):
        if (run_dir / layout.RUN_INFO).exists():  # another one adopted it a moment ago
            raise RunExists(run_dir)
        info = RunInfo(
            run_id=run_dir.name,
            started_at=started_at,
            request=request,
            broker=mask_urls(broker),
            reused_from=planned.reuse.begun if planned.reuse is not None else None,
        )
        run_info.write_reserved(run_dir, info)
        run_info.write_params(run_dir, request)
        sealed = _freeze(run_dir, info, planned, now)
    return SealedRun(address_of(root, run_dir, sealed.request), sealed)


def plan_again(
    run_dir: Path, plan: Callable[[Request], Planned], *, now: Callable[[], datetime]
) -> RunInfo:
    """Finish the planning of a run that was interrupted before its seal.

    What it was to take over it takes over now, from the source that was chosen then.

    Returns:
        The sealed info, whoever sealed it.

    Raises:
        RunNotFound: not even the request had reached the disk; the run never started.
        UsageError: the request cannot be planned any more, or another coordinator does it now.
        Refusal: the source of its reuse is gone, or cannot be read any more.
    """
    with run_info.planning(run_dir):
        info = run_info.load(run_dir)
        if info.sealed_at is not None:
            return info
        with plan(info.request) as planned:
            reuse = frozen_reuse(info.reused_from, planned.new) if info.reused_from else None
            run_info.write_params(run_dir, info.request)
            return _freeze(run_dir, info, replace(planned, reuse=reuse), now)


def address_of(root: ResultsRoot, run_dir: Path, request: Request) -> RunAddress:
    """Return where workers find a run; UsageError if they cannot."""
    return RunAddress(
        root=root,
        ref=run_ref(root, run_dir),
        run_dir=run_dir,
        queue=request.runtime.queue,
        k=request.execution.attempts.k,
        model=request.model.id,
    )


def root_of(run_dir: Path) -> ResultsRoot:
    """Return the results folder that a run lies in: the nearest one above it.

    Raises:
        RunNotFound: there is nothing at `run_dir`.
        UsageError: no results folder of ours is above it.
    """
    if not run_dir.is_dir():
        raise RunNotFound(run_dir)
    for folder in run_dir.resolve().parents:
        root = find_root(folder)
        if root is not None:
            return root
    raise UsageError(
        f"run {run_dir.name!r} lies in no results folder of ours",
        where=str(run_dir),
        hint="a run is resumed in the folder where it was started, not in a copy of the run alone",
    )


def _freeze(run_dir: Path, info: RunInfo, planned: Planned, now: Callable[[], datetime]) -> RunInfo:
    frozen = tasks.freeze(run_dir, planned.tasks)
    plans, reuse = planned.plans, planned.reuse
    if reuse is not None:
        reuse.write(run_dir, planned.new)
        plans = plans.model_copy(update={"reused": reuse.plans})
    described = info.model_copy(
        update={
            "task_count": frozen.count,
            "attempt_count": planned.attempt_count,
            "tasks_sha256": frozen.sha256,
            "metric_contract": planned.contract,
            "aggregation": planned.aggregation,
            "category_hierarchy": planned.category_hierarchy,
            "benchmark_sha256": planned.benchmark_sha256,
            "custom_aggregation": planned.custom_aggregation,
            "resolved_execution_plans": plans,
            "reused_from": reuse.record if reuse is not None else None,
        }
    )
    return run_info.seal(run_dir, described, now())
