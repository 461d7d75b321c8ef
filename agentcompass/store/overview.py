"""One run in one line, from its small files alone: made for folders of thousands of runs.

No model is validated and no result is opened; what is shown here is looked up properly by
`status` and `report`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from agentcompass.errors import AgentCompassError
from agentcompass.store import control, disk, layout

_ATTEMPT_PREFIX: Final = "attempt-"


@dataclass(frozen=True, slots=True)
class RunLine:
    """What a listing of runs says about one of them; null means that the run does not say."""

    path: Path
    run_id: str
    state: str
    started_at: datetime | None
    benchmark: str = ""
    model: str = ""
    attempts_done: int | None = None
    """Attempt directories with a result of any leg; null in a layout without such directories."""
    attempts_total: int | None = None
    series_id: str | None = None
    """Of the headline; null until there is a report."""
    value: float | None = None
    reference_value: float | None = None
    evaluated: int = 0
    tasks: int | None = None
    """The denominator of the headline, or of the plan before there is a report."""
    size_bytes: int | None = None
    """Of all files; null if nobody asked."""
    problem: str = ""
    """Why the rest is missing."""


def overview(run_dir: Path, *, with_size: bool = False) -> RunLine:
    """Return the line of one run; what cannot be read becomes its `problem`."""
    try:
        info = _object(run_dir / layout.RUN_INFO)
    except (OSError, ValueError) as error:
        return RunLine(run_dir, run_dir.name, "unreadable", None, problem=_brief(error))
    try:
        headline = _headline(_object(run_dir / layout.METRICS))
    except (OSError, ValueError):
        headline = {}
    counts = _part(headline, "counts")
    request = _part(info, "request")
    done = _results(run_dir)
    try:
        state = _state(run_dir, info, done)
    except AgentCompassError as error:  # deleted meanwhile, for example
        return RunLine(run_dir, run_dir.name, "unreadable", None, problem=_brief(error))
    return RunLine(
        path=run_dir,
        run_id=_text(info, "run_id") or run_dir.name,
        state=state,
        started_at=_time(info),
        benchmark=_text(_part(request, "benchmark"), "id"),
        model=_text(_part(request, "model"), "id"),
        attempts_done=done,
        attempts_total=_whole(info, "attempt_count"),
        series_id=_text(headline, "series_id") or None,
        value=_number(headline, "value"),
        reference_value=_number(headline, "reference_value"),
        evaluated=_whole(counts, "evaluated") or 0,
        tasks=_whole(counts, "total") or _whole(info, "task_count"),
        size_bytes=_size(run_dir) if with_size else None,
    )


def _state(run_dir: Path, info: Mapping[str, object], done: int | None) -> str:
    """Return what the run says of itself, unless results are gone of which it has a report."""
    if "sealed_at" not in info:
        return _text(info, "status") or "unknown"
    if info["sealed_at"] is None:
        return "planning"
    state, planned = _text(info, "status"), _whole(info, "attempt_count") or 0
    missing = planned - (done or 0) if state in {"completed", "failed"} else 0
    if missing > 0 and missing > len(control.legs(run_dir).closed):
        return "running"
    return state or "unknown"


def _results(run_dir: Path) -> int | None:
    details = run_dir / layout.DETAILS
    folders = disk.directories(details)
    if not any(name in layout.STATES for name in folders):
        # The flat layout, or the one before it, which has files only.
        return len(list(_results_below(details))) if folders else None
    # A task that is filed while we count stands in both, for us; were `running` not first, in none.
    running = set(_results_below(details / layout.STATES[0]))
    filed = (each for state in layout.FILED_STATES for each in _results_below(details / state))
    return len(running) + sum(each not in running for each in filed)


def _results_below(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (task, attempt) of the results of the tasks in a folder."""
    for task in disk.directories(folder):
        for name in disk.directories(f"{folder}/{task}"):
            is_attempt = name.startswith(_ATTEMPT_PREFIX)
            if is_attempt and disk.is_file(f"{folder}/{task}/{name}/{layout.RESULT}"):
                yield task, name


def _headline(report: Mapping[str, object]) -> Mapping[str, object]:
    series = report.get("series")
    found = [each for each in series if isinstance(each, dict)] if isinstance(series, list) else []
    return next((each for each in found if each.get("role") == "headline"), {})


def _size(folder: str | Path) -> int:
    """Return the bytes of all files below; links are not followed, and what is gone counts 0."""
    try:
        with os.scandir(folder) as entries:
            return sum(map(_size_of, entries))
    except OSError:  # filed, swept or not ours to read: the size is for people, not for sums
        return 0


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        if entry.is_dir(follow_symlinks=False):
            return _size(entry.path)
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _object(path: Path) -> Mapping[str, object]:
    value = orjson.loads(disk.read(path))
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is not an object")  # noqa: TRY004 - of data, not of code
    return value


def _part(parent: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _text(parent: Mapping[str, object], name: str) -> str:
    value = parent.get(name)
    return value if isinstance(value, str) else ""


def _whole(parent: Mapping[str, object], name: str) -> int | None:
    value = parent.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(parent: Mapping[str, object], name: str) -> float | None:
    value = parent.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]  # narrowed above


def _time(info: Mapping[str, object]) -> datetime | None:
    try:
        found = datetime.fromisoformat(_text(info, "started_at"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
