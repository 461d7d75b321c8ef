"""A run as a source of reuse: ours, or of another writer. Read, never written, nor locked.

A source is looked up task by task, by the digest in the name of a task's directory, so that
nothing is opened but what the new run asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agentcompass.errors import RecordCorrupt
from agentcompass.models.base import JsonObject
from agentcompass.models.request import AttemptPlan
from agentcompass.models.run_info import RunInfo
from agentcompass.store import control, disk, layout, sealed, tasks
from agentcompass.store.foreign import detail_files, is_foreign
from agentcompass.store.foreign.detail_files import DetailFile
from agentcompass.store.foreign.head import ForeignLayout, layout_of, read_head
from agentcompass.store.layout import State
from agentcompass.store.legs import Legs

SourceLayout: TypeAlias = Literal["ours"] | ForeignLayout
_ORDER: Final[tuple[State, ...]] = ("running", *layout.FILED_STATES)
"""A filed copy goes before a running one beside it."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a run says about itself, and where its tasks stand."""

    run_dir: Path
    run_id: str
    layout: SourceLayout
    benchmark_id: str
    harness_id: str
    model_id: str
    attempts: AttemptPlan
    is_any_strategy: bool
    """The oldest layout says no strategy; if no task stopped early, its results fit each."""
    started_at: datetime | None
    request: JsonObject
    plans: JsonObject
    """Of another writer: task id -> what it planned."""
    info: RunInfo | None = None
    """Of ours."""
    legs: Legs = field(default_factory=Legs)
    places: Mapping[str, tuple[State, Path]] = field(default_factory=dict)
    """SHA-256 of a task id -> its state and directory."""
    details: Mapping[str, DetailFile] = field(default_factory=dict)
    """Of the oldest layout, by task id."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Of ours: task id -> where its line begins in `tasks.jsonl`."""
    malformed: tuple[tuple[Path, str], ...] = ()
    """Records that do not even tell which task they are of."""


def open_source(run_dir: Path) -> Source:
    """Open a run as a source.

    Raises:
        RunNotFound, RunNotSealed: there is nothing to take.
        MixedLayouts: it cannot be told which records count.
        RecordCorrupt, FormatUnknown: `run_info.json`, `tasks.jsonl` or a control record is unreadable.
    """
    return _foreign(run_dir) if is_foreign(run_dir) else _ours(run_dir)


def digest_in(dirname: str) -> str:
    """Return the digest of the task id in the name of a task's directory; "" if there is none."""
    return dirname.rpartition("--")[2] if "--" in dirname else ""


def _ours(run_dir: Path) -> Source:
    info = sealed.load_frozen(run_dir)
    layout_of(run_dir)
    request = info.request
    return Source(
        run_dir=run_dir,
        run_id=info.run_id,
        layout="ours",
        benchmark_id=request.benchmark.id,
        harness_id=request.harness.id,
        model_id=request.model.id,
        attempts=request.execution.attempts,
        is_any_strategy=False,
        started_at=info.started_at,
        request=request.model_dump(mode="json"),
        plans={},
        info=info,
        legs=control.legs(run_dir),
        places=_in_states(run_dir),
        offsets={entry.task_id: entry.offset for entry in tasks.entries(run_dir)},
    )


def _foreign(run_dir: Path) -> Source:
    head = read_head(run_dir)
    kind = layout_of(run_dir)
    details, malformed = _details(run_dir) if kind == "detail_files" else ({}, ())
    told = detail_files.plan_of(details)
    return Source(
        run_dir=run_dir,
        run_id=head.run_id,
        layout=kind,
        benchmark_id=head.benchmark_id,
        harness_id=head.harness_id,
        model_id=head.model_id,
        attempts=told if kind == "detail_files" else head.attempts or told,
        is_any_strategy=kind == "detail_files" and told.strategy != "pass",
        started_at=head.started_at,
        request=head.request,
        plans=head.plans,
        places=_flat(run_dir) if kind == "flat" else _in_states(run_dir),
        details=details,
        malformed=malformed,
    )


def _in_states(run_dir: Path) -> dict[str, tuple[State, Path]]:
    return {
        digest_in(dirname): (state, layout.state_dir(run_dir, state) / dirname)
        for state in _ORDER
        for dirname in disk.directories(layout.state_dir(run_dir, state))
    }


def _flat(run_dir: Path) -> dict[str, tuple[State, Path]]:
    details = run_dir / layout.DETAILS
    return {digest_in(name): ("normal", details / name) for name in disk.directories(details)}


def _details(run_dir: Path) -> tuple[dict[str, DetailFile], tuple[tuple[Path, str], ...]]:
    found: dict[str, DetailFile] = {}
    malformed: list[tuple[Path, str]] = []
    details = run_dir / layout.DETAILS
    for name in sorted(disk.names(details)):
        if not name.endswith(".json") or not disk.is_file(details / name):
            continue
        try:
            detail = detail_files.read_detail(details / name)
        except RecordCorrupt as error:
            malformed.extend(error.problems)
        else:
            found[detail.task_id] = detail_files.better(detail, found.get(detail.task_id))
    return found, tuple(malformed)
