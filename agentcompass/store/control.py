"""`control/NNNN.json`: every decision after the seal, published once, in one order for all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentcompass.errors import RunNotFound
from agentcompass.models.run_info import ControlRecord
from agentcompass.store import atomic, layout, records
from agentcompass.store.legs import Legs, fold

_CACHE_LIMIT: Final = 256


@dataclass(frozen=True, slots=True)
class _Known:
    names: tuple[str, ...]
    legs: Legs


_cache: dict[Path, _Known] = {}


def append(run_dir: Path, record_for: Callable[[int], ControlRecord]) -> ControlRecord:
    """Publish one decision after all others, and return it when it is on disk.

    Args:
        record_for: is called with the number of the leg that is current as of all records before
            this one, and again if another process got the number first. A resume, rerun or
            quarantine opens `current + 1`, everything else speaks of `current`.

    Raises:
        RunNotFound: there is no `control/` directory.
    """
    while True:
        names = record_names(run_dir)
        number = _last_number(names) + 1
        record = record_for(_fold_of(run_dir, names).current)
        path = run_dir / layout.CONTROL / layout.control_name(number)
        if atomic.publish_once(path, records.pretty(record)):
            return record


def legs(run_dir: Path) -> Legs:
    """Return what all control records mean; one directory listing if none is new.

    Listing also refreshes a share's cache, so a record that was durable before a message was sent
    is seen by whoever got the message, but for shares that cache listings themselves.

    Raises:
        RunNotFound: there is no `control/` directory.
        RecordCorrupt: a control record cannot be read.
    """
    return _fold_of(run_dir, record_names(run_dir))


def control_records(run_dir: Path) -> list[ControlRecord]:
    """Return all control records in order."""
    directory = run_dir / layout.CONTROL
    return [records.read(directory / name, ControlRecord) for name in record_names(run_dir)]


def record_names(run_dir: Path) -> tuple[str, ...]:
    """Return the names of all control records in order.

    Raises:
        RunNotFound: there is no `control/` directory.
    """
    try:
        with os.scandir(f"{run_dir}/{layout.CONTROL}") as entries:
            found = [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunNotFound(run_dir) from error
    numbered = [name for name in found if layout.control_number(name) is not None]
    return tuple(sorted(numbered, key=lambda name: (len(name), name)))


def _last_number(names: tuple[str, ...]) -> int:
    return (layout.control_number(names[-1]) or 0) if names else 0


def _fold_of(run_dir: Path, names: tuple[str, ...]) -> Legs:
    known = _cache.get(run_dir)
    if known is not None and known.names == names:
        return known.legs
    # A share may show number 3 before number 2: fold on only if what we knew is still the beginning.
    is_longer = known is not None and names[: len(known.names)] == known.names
    start, new = (known, names[len(known.names) :]) if known and is_longer else (None, names)
    directory = run_dir / layout.CONTROL
    folded = fold(
        (records.read(directory / name, ControlRecord) for name in new),
        start.legs if start else None,
    )
    if len(_cache) >= _CACHE_LIMIT:
        _cache.clear()
    _cache[run_dir] = _Known(names, folded)
    return folded
