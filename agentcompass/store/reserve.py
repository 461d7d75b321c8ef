"""Taking a run directory for oneself: one atomic mkdir that exactly one coordinator wins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from agentcompass.errors import ResultsDirUnusable, RunExists, UsageError
from agentcompass.store import atomic, layout
from agentcompass.store.names import safe_component
from agentcompass.store.root import ResultsRoot, check_ref

_TIMESTAMP: Final = "%Y%m%d_%H%M%S"
_AN_EXAMPLE: Final = "20260131_235959"


def check_place(namespace: Sequence[str], run_id: str | None) -> None:
    """Raise UsageError if a run of this name would hide others or be too deep for a message.

    Touches nothing.
    """
    name = safe_component(run_id) if run_id is not None else _AN_EXAMPLE
    for level in (*namespace, name):
        if level.casefold() in layout.OURS:
            raise UsageError(
                f"no run and no folder of runs may be called {level!r}: a run directory holds a "
                "file of that name",
                hint="choose another --run-id, --run-name or name of the request",
            )
    check_ref("/".join((*namespace, name)))


def reserve(root: ResultsRoot, namespace: Sequence[str], run_id: str | None, now: datetime) -> Path:
    """Make a new, empty run directory and return it; it is durable and nobody else's.

    Args:
        namespace: safe levels, see `names.namespace_of`.
        run_id: is made safe; without one the time `now` is the name, advanced by seconds until it
            is free.

    Raises:
        RunExists: the explicit id is taken, compared case-folded. Nothing was written.
        UsageError: the path below the results folder is too long for a message.
        ResultsDirUnusable: a level of the namespace cannot be created.
    """
    wanted = safe_component(run_id) if run_id is not None else now.strftime(_TIMESTAMP)
    check_place(namespace, run_id)
    parent = _make_levels(root.path, namespace)
    run_dir = _take(parent, wanted) if run_id is not None else _take_next(parent, now)
    make_skeleton(run_dir)
    atomic.sync_directory(parent)
    return run_dir


def adopt(root: ResultsRoot, namespace: Sequence[str], run_id: str | None, now: datetime) -> Path:
    """Reserve an id that is ours already by a record that was written before, as of a launch.

    A directory of that name without `run_info.json` is what a crash left of the same reservation.

    Raises:
        RunExists: there is a run.
        As `reserve`.
    """
    if run_id is None:
        return reserve(root, namespace, None, now)
    check_place(namespace, run_id)
    parent = _make_levels(root.path, namespace)
    run_dir = parent / safe_component(run_id)
    if (run_dir / layout.RUN_INFO).exists():
        raise RunExists(run_dir)
    atomic.make_directory(run_dir)
    make_skeleton(run_dir)
    atomic.sync_directory(parent)
    return run_dir


def is_taken(root: Path, namespace: Sequence[str], run_id: str) -> bool:
    """Return whether an id is in use, compared case-folded. Touches nothing."""
    parent, wanted = root.joinpath(*namespace), safe_component(run_id)
    return (parent / wanted).exists() or (parent.is_dir() and _same_folded(parent, wanted))


def make_skeleton(run_dir: Path) -> None:
    """Make `control/` and `details/<state>/`. Safe to repeat; below these nothing is recursive."""
    for directory in (layout.CONTROL, layout.DETAILS):
        atomic.make_directory(run_dir / directory)
    for state in layout.STATES:
        atomic.make_directory(layout.state_dir(run_dir, state))
    atomic.sync_directory(run_dir / layout.DETAILS)
    atomic.sync_directory(run_dir)


def _make_levels(root: Path, namespace: Sequence[str]) -> Path:
    parent = root
    for level in namespace:
        try:
            if atomic.make_directory(parent / level):
                atomic.sync_directory(parent)
        except OSError as error:
            reason = f"{parent / level} cannot be created ({error.strerror})"
            raise ResultsDirUnusable(root, reason) from error
        parent = parent / level
        if not parent.is_dir() or parent.is_symlink():
            raise ResultsDirUnusable(root, f"{parent} is not a directory")
    return parent


def _take(parent: Path, wanted: str) -> Path:
    run_dir = parent / wanted
    if _same_folded(parent, wanted) or not atomic.make_directory(run_dir):
        raise RunExists(run_dir)
    if _same_folded(parent, wanted):
        # Two coordinators asked at once for ids that differ only in case. Neither has written
        # anything; that both are refused is better than runs that a laptop cannot tell apart.
        atomic.remove_directory(run_dir)
        raise RunExists(run_dir)
    return run_dir


def _take_next(parent: Path, now: datetime) -> Path:
    moment = now
    while not atomic.make_directory(parent / moment.strftime(_TIMESTAMP)):
        moment += timedelta(seconds=1)
    return parent / moment.strftime(_TIMESTAMP)


def _same_folded(parent: Path, wanted: str) -> bool:
    """Return whether another entry has this name but for its case."""
    with os.scandir(parent) as entries:
        names = [entry.name for entry in entries]
    return any(name != wanted and name.casefold() == wanted.casefold() for name in names)
