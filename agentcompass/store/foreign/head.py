"""What another writer's run says about itself, without looking at its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import JsonValue, ValidationError

from agentcompass.errors import FormatUnknown, RunNotFound, StoreError
from agentcompass.models.base import JsonObject
from agentcompass.models.request import AttemptPlan
from agentcompass.models.run_info import RUN_INFO_SCHEMA
from agentcompass.store import disk, layout, records

KNOWN_SCHEMAS: Final = (
    "agentcompass.run_info.v1",
    "agentcompass.run_info.v2",
    "agentcompass.run_info.v3",
)
ForeignLayout = Literal["state_folders", "flat", "detail_files"]
_SAID: Final[dict[ForeignLayout, str]] = {
    "state_folders": "task directories in state folders",
    "flat": "task directories without a state folder",
    "detail_files": "one file per task",
}


class MixedLayouts(StoreError):
    """Details of several layouts in one run: nobody can tell which of two records counts."""

    def __init__(self, path: Path, layouts: tuple[ForeignLayout, ...]) -> None:
        super().__init__(path, layouts)
        self.path = path
        self.layouts = layouts

    def __str__(self) -> str:
        found = " and ".join(_SAID[each] for each in self.layouts)
        return (
            f"{self.path} mixes layouts: {found}\n"
            "  do: leave the files of one layout there, in a copy of the run"
        )


@dataclass(frozen=True, slots=True)
class ForeignHead:
    """The beginning of another writer's run."""

    run_dir: Path
    schema: str
    """Its marker, "" if it has none."""
    run_id: str
    status: str
    """As it says itself; "" if it never came to an end."""
    started_at: datetime | None
    finished_at: datetime | None
    error: str
    request: JsonObject
    benchmark_id: str
    harness_id: str
    model_id: str
    attempts: AttemptPlan | None
    """None if it does not say; then its details tell."""
    plans: JsonObject
    """Task id -> what it planned for its attempts."""


def is_foreign(run_dir: Path) -> bool:
    """Return whether this is a run of another writer: ours always say when they were sealed.

    Raises:
        RunNotFound: it has no `run_info.json`.
        RecordCorrupt: nobody can tell.
    """
    info = _run_info(run_dir)
    return info.get("schema_version") != RUN_INFO_SCHEMA or "sealed_at" not in info


def read_head(run_dir: Path) -> ForeignHead:
    """Read what another writer's run says about itself.

    Raises:
        RunNotFound, FormatUnknown: there is no run, or one of a format that we do not know.
        RecordCorrupt: its `run_info.json` cannot be read.
    """
    info = _run_info(run_dir)
    schema = str(info.get("schema_version") or "")
    if schema and schema not in KNOWN_SCHEMAS:
        raise FormatUnknown(run_dir / layout.RUN_INFO, schema, KNOWN_SCHEMAS)
    request = as_object(info.get("request"))
    return ForeignHead(
        run_dir=run_dir,
        schema=schema,
        run_id=str(info.get("run_id") or run_dir.name),
        status=str(info.get("status") or ""),
        started_at=_time(info.get("started_at")),
        finished_at=_time(info.get("finished_at")),
        error=str(info.get("error") or ""),
        request=request,
        benchmark_id=_component(request.get("benchmark")),
        harness_id=_component(request.get("harness")) or "none",
        model_id=_component(request.get("model")),
        attempts=_attempts(request, run_dir / layout.RUN_INFO),
        plans=as_object(info.get("resolved_execution_plans")),
    )


def layout_of(run_dir: Path) -> ForeignLayout:
    """Return the layout of a run's details; the newest if it has none.

    Raises:
        MixedLayouts: there are several.
    """
    details = run_dir / layout.DETAILS
    folders = disk.directories(details)
    names = disk.names(details) if disk.is_directory(details) else []
    rules: tuple[tuple[ForeignLayout, bool], ...] = (
        ("state_folders", any(disk.directories(details / state) for state in layout.STATES)),
        ("flat", any(name not in layout.STATES for name in folders)),
        (
            "detail_files",
            any(name.endswith(".json") and disk.is_file(details / name) for name in names),
        ),
    )
    found = tuple(name for name, is_there in rules if is_there)
    if len(found) > 1:
        raise MixedLayouts(run_dir, found)
    return found[0] if found else "state_folders"


def as_object(value: JsonValue) -> JsonObject:
    """Return a JSON object, an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def _run_info(run_dir: Path) -> JsonObject:
    path = run_dir / layout.RUN_INFO
    try:
        return records.json_object(path.read_bytes(), path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunNotFound(run_dir) from error


def _attempts(request: Mapping[str, JsonValue], path: Path) -> AttemptPlan | None:
    given = as_object(as_object(request.get("execution")).get("attempts"))
    if not given:
        return None
    try:
        return AttemptPlan.model_validate({"k": given.get("k"), "strategy": given.get("strategy")})
    except ValidationError as error:
        raise records.corrupt(path, f"execution.attempts: {records.brief(error)}") from error


def _component(value: JsonValue) -> str:
    return str(value.get("id") or "") if isinstance(value, dict) else str(value or "")


def _time(value: JsonValue) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
