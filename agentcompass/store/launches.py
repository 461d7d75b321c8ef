"""`<results folder>/.launches/<id>.json`: which runs were started together.

The first record is published before the first run directory is made, and names all of them: after
a crash nobody has to guess which run belongs to which request. After it only the holder of the
record's lock replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from agentcompass.errors import UsageError
from agentcompass.models.launch import LaunchRecord
from agentcompass.store import atomic, layout, records
from agentcompass.store.root import ResultsRoot, find_root

LAUNCHES: Final = ".launches"
_LOCK_SUFFIX: Final = ".lock"
_TIMESTAMP: Final = "%Y%m%d_%H%M%S"


def path_of(results_dir: Path, launch_id: str) -> Path:
    """Return where the record of a launch is."""
    return results_dir / LAUNCHES / f"{launch_id}.json"


def is_launch(path: Path) -> bool:
    """Return whether a path names the record of a launch, by its place."""
    return path.suffix == ".json" and path.absolute().parent.name == LAUNCHES


def publish(
    root: ResultsRoot, now: datetime, record_for: Callable[[str], LaunchRecord | None]
) -> LaunchRecord:
    """Publish the first record of a launch under a free id.

    Args:
        now: the id is this time, `YYYYMMDD_HHMMSS`, advanced by seconds until it is free.
        record_for: returns the record for an id, or None if a run of that name is there already.
    """
    folder = root.path / LAUNCHES
    if atomic.make_directory(folder):
        atomic.sync_directory(root.path)
    moment = now
    while True:
        launch_id = moment.strftime(_TIMESTAMP)
        record = record_for(launch_id)
        if record is not None and atomic.publish_once(
            path_of(root.path, launch_id), records.pretty(record)
        ):
            return record
        moment += timedelta(seconds=1)


def load(path: Path) -> tuple[ResultsRoot, LaunchRecord]:
    """Return a record and the results folder that it lies in.

    Raises:
        UsageError: there is none, or its folder is no results folder.
        RecordCorrupt, FormatUnknown: it cannot be relied on.
    """
    root = find_root(path.absolute().parent.parent)
    if root is None:
        raise UsageError("this launch lies in no results folder of ours", where=str(path))
    try:
        return root, records.read(path, LaunchRecord)
    except FileNotFoundError as error:
        raise UsageError("there is no such launch", where=str(path)) from error


def replace(root: ResultsRoot, record: LaunchRecord) -> None:
    """Put a newer state of a launch in place of the older one."""
    atomic.replace(path_of(root.path, record.launch_id), records.pretty(record))


@contextmanager
def carrying_out(root: ResultsRoot, launch_id: str) -> Iterator[None]:
    """Hold a launch: until the context ends, nobody else on this host replaces its record.

    Raises:
        UsageError: another coordinator carries it out now.
    """
    path = path_of(root.path, launch_id)
    with atomic.lock(path.with_suffix(_LOCK_SUFFIX)) as is_ours:
        if not is_ours:
            raise UsageError(
                "another coordinator carries this launch out",
                where=str(path),
                hint="wait until it has ended, or `agentcompass resume` its runs by their paths",
            )
        yield


def found_of(root: ResultsRoot, run: str) -> dict[str, str]:
    """Return what is there of a run: name -> path below the results folder."""
    names = {
        "run_info": layout.RUN_INFO,
        "metrics": layout.METRICS,
        "summary": layout.SUMMARY,
    }
    there = {
        name: f"{run}/{file}" for name, file in names.items() if (root.path / run / file).is_file()
    }
    return {"run": run, **there} if (root.path / run).is_dir() else {}
