"""The runs below a results folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from agentcompass.coordinator.planning.start import SealedRun, address_of, root_of
from agentcompass.errors import AgentCompassError
from agentcompass.store import layout, sealed

_DEEPEST: Final = 16
"""Levels of namespaces; run names may have several."""
_Stamp: TypeAlias = tuple[int, int]


def find_runs(folder: Path, depth: int = _DEEPEST) -> Iterator[Path]:
    """Yield every directory with a `run_info.json`, not looking into runs or hidden folders."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # gone or not ours to read: it holds no run that we could do anything about
        return
    if any(entry.name == layout.RUN_INFO for entry in found):
        yield folder
        return
    for entry in found:
        is_level = entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
        if is_level and depth > 0:
            yield from find_runs(Path(entry.path), depth - 1)


def opened(run_dir: Path) -> SealedRun:
    """Return a sealed run of ours and where workers find it.

    Raises:
        RunNotFound, RunNotSealed, FormatUnknown, RecordCorrupt: it is none.
        UsageError: it lies in no results folder.
    """
    info = sealed.load_sealed(run_dir)
    return SealedRun(address_of(root_of(run_dir), run_dir.resolve(), info.request), info)


class LiveRuns:
    """Finds the runs that somebody should watch, opening only what has changed since last time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[_Stamp, SealedRun | None]] = {}

    def __iter__(self) -> Iterator[SealedRun]:
        """Yield sealed runs that say that they are running; what cannot be read is passed over."""
        for run_dir in find_runs(self._folder):
            run = self._known_as(run_dir)
            if run is not None and run.info.status == "running":
                yield run

    def _known_as(self, run_dir: Path) -> SealedRun | None:
        try:
            stat = (run_dir / layout.RUN_INFO).stat()
        except OSError:
            return None
        stamp = (stat.st_ino, stat.st_mtime_ns)
        if run_dir not in self._known or self._known[run_dir][0] != stamp:
            self._known[run_dir] = (stamp, _opened_or_none(run_dir))
        return self._known[run_dir][1]


def _opened_or_none(run_dir: Path) -> SealedRun | None:
    try:
        return opened(run_dir)
    except (AgentCompassError, OSError):
        return None
