"""Reading `run_info.json` of our own runs."""

from __future__ import annotations

from pathlib import Path

from agentcompass.errors import FormatUnknown, RunNotFound, RunNotSealed
from agentcompass.models.run_info import RUN_INFO_SCHEMA, RunInfo
from agentcompass.store import layout, records


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
