"""Reading `run_info.json` of our own runs."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from agentcompass.errors import FormatUnknown, RunNotFound, RunNotSealed
from agentcompass.models.run_info import RUN_INFO_SCHEMA, RunInfo
from agentcompass.store import layout, records

_CACHE_LIMIT: Final = 256
_frozen: dict[Path, tuple[tuple[int, ...], str]] = {}
"""Task lists whose digest was right: the file as it was then, and the digest."""


def load(run_dir: Path) -> RunInfo:
    """Read a run of ours. Other writers' runs are read by `store.foreign`.

    Raises:
        RunNotFound: it has no `run_info.json`, so it never started.
        RecordCorrupt, FormatUnknown: it cannot be relied on.
    """
    path = run_dir / layout.RUN_INFO
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunNotFound(run_dir) from error
    value = records.json_object(data, path)
    if value.get("schema_version") == RUN_INFO_SCHEMA and "sealed_at" not in value:
        raise FormatUnknown(path, f"{RUN_INFO_SCHEMA} of another writer", (RUN_INFO_SCHEMA,))
    return records.parse(data, RunInfo, path)


def load_sealed(run_dir: Path) -> RunInfo:
    """Read a run of ours in which there is work.

    Raises:
        RunNotSealed: it was interrupted while it was planned. And what `load` raises.
    """
    info = load(run_dir)
    if info.sealed_at is None:
        raise RunNotSealed(run_dir)
    return info


def load_frozen(run_dir: Path) -> RunInfo:
    """Read a run of ours whose tasks are to be read: what `load_sealed` does, and `refuse_edited`."""
    info = load_sealed(run_dir)
    refuse_edited(run_dir, info)
    return info


def refuse_edited(run_dir: Path, info: RunInfo) -> None:
    """Refuse a task list that is not the one that was sealed: its tasks would be executed.

    One `stat` as long as the file is the same as the last time. A list that is gone is refused by
    whoever opens it.

    Raises:
        RecordCorrupt: the list was changed after the seal.
    """
    path = run_dir / layout.TASKS
    if info.tasks_sha256 is None:
        return
    try:
        found = path.stat()
        # The time of the last change of the inode cannot be set back, as that of the content can.
        known = (
            (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns),
            info.tasks_sha256,
        )
        if _frozen.get(run_dir) == known:
            return
        if digest(run_dir) != info.tasks_sha256:
            raise records.corrupt(path, "is not the task list that was sealed; put that one back")
    except FileNotFoundError:
        return
    if len(_frozen) >= _CACHE_LIMIT:
        _frozen.clear()
    _frozen[run_dir] = known


def digest(run_dir: Path) -> str:
    """Return the SHA-256 of the task list as it is now."""
    total = sha256()
    with (run_dir / layout.TASKS).open("rb") as file:
        while chunk := file.read(1 << 20):
            total.update(chunk)
    return total.hexdigest()
