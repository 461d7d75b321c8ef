"""Removing temporary files that a crash left. Nobody needs this: no reader ever looks at them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

from agentcompass.store import atomic, disk, layout

MIN_AGE_S: Final = 3_600.0
"""No write takes this long. By the clock of the file system, which is everybody's."""


def sweep(run_dir: Path, *, min_age_s: float = MIN_AGE_S) -> int:
    """Remove old `.tmp-*` files of a run, but not below artifacts; return how many there were.

    Safe beside living writers: theirs are younger, and one that loses its temporary file all the
    same fails with FileNotFoundError before anything is under the final name.
    """
    now = _file_system_time(run_dir)
    swept = 0
    for directory in _directories(run_dir):
        for name in _names(directory):
            if name.startswith(atomic.TEMP_PREFIX):
                path = f"{directory}/{name}"
                if disk.is_file(path) and now - os.lstat(path).st_mtime >= min_age_s:
                    swept += atomic.remove(path)
    return swept


def _file_system_time(run_dir: Path) -> float:
    probe = run_dir / f"{atomic.TEMP_PREFIX}{uuid4().hex}"
    atomic.create(probe, b"")
    try:
        return os.lstat(probe).st_mtime
    finally:
        atomic.remove(probe)


def _directories(run_dir: Path) -> Iterator[str]:
    yield str(run_dir)
    yield str(run_dir / layout.CONTROL)
    for state in layout.STATES:
        for dirname in disk.directories(layout.state_dir(run_dir, state)):
            task_dir = layout.task_path(run_dir, state, dirname)
            yield task_dir
            for name in disk.directories(task_dir):
                yield f"{task_dir}/{name}"


def _names(directory: str) -> list[str]:
    try:
        return disk.names(directory)
    except FileNotFoundError:  # moved meanwhile; the next sweep finds it
        return []
