"""Taking the result of an earlier leg from its attempt, and never a later one in its stead.

No call moves a file only if it is still the one that was read, and whoever reopens may have stood
still since then. So the result is renamed to a folder of this call's own and read *there*: one that
counts gets its name again. A process that dies in between leaves it in `retries/retiring-<random>/`,
and whoever reopens or begins the attempt next settles what becomes of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import uuid4

from agentcompass.store import atomic, disk, evidence, layout, results
from agentcompass.store.results import ResultHead

_RETIRING: Final = "retiring-"
_UNKNOWN: Final = "unknown"


def retire(attempt_dir: Path, valid_from: int) -> None:
    """Move a result of an earlier leg, its marks and its discarded tries to `retries/leg-<n>/`.

    Raises:
        FileNotFoundError: somebody else is at it, or the task was moved; look again.
    """
    path = attempt_dir / layout.RESULT
    if disk.is_file(path):
        head = results.load_outcome(path)
        if head.leg < valid_from:
            _take(attempt_dir, head)
    for folder in _taken(attempt_dir):
        _settle(attempt_dir, folder, valid_from)


def is_unsettled(attempt_dir: str | Path) -> bool:
    """Return whether a result was taken from the attempt and nobody has said what becomes of it."""
    return bool(_taken(attempt_dir))


def _taken(attempt_dir: str | Path) -> list[Path]:
    """Return the folders with a result. One without is being filled, or was left by a crash."""
    retries = Path(attempt_dir, layout.RETRIES)
    own = [name for name in disk.directories(retries) if name.startswith(_RETIRING)]
    return [retries / name for name in own if disk.is_file(retries / name / layout.RESULT)]


def _take(attempt_dir: Path, head: ResultHead) -> None:
    """Take away the result last: until then a process that died is succeeded by any other."""
    target = _of_leg(attempt_dir, head)
    for name in disk.names(attempt_dir):
        mark = layout.mark_of(name)
        if mark is not None and mark[1] == head.token:
            atomic.move(attempt_dir / name, target / name)
    for name in disk.directories(attempt_dir / layout.RETRIES):
        if name.startswith(layout.RETRY):  # else the next leg's first try would take its place
            atomic.move(attempt_dir / layout.RETRIES / name, target / name)
    own = evidence.keep(attempt_dir, f"{_RETIRING}{uuid4().hex}", {})
    if not atomic.move(attempt_dir / layout.RESULT, own / layout.RESULT):
        atomic.remove_directory(own)
        raise FileNotFoundError(attempt_dir / layout.RESULT)


def _settle(attempt_dir: Path, folder: Path, valid_from: int) -> None:
    """Bring a result that was taken to where it belongs; any number of processes may do it at once."""
    taken = folder / layout.RESULT
    head = results.load_outcome(taken)
    if head.leg < valid_from or not _given_back(attempt_dir, taken, head, valid_from):
        target = _of_leg(attempt_dir, head)
        atomic.move(taken, target / f"result-{head.token or _UNKNOWN}.json")
        atomic.sync_directory(target)
    atomic.sync_directory(attempt_dir)
    atomic.remove_directory(folder)


def _given_back(attempt_dir: Path, taken: Path, head: ResultHead, valid_from: int) -> bool:
    """Give a result that counts its name again; False if another one has got that meanwhile."""
    path = attempt_dir / layout.RESULT
    if not atomic.add_name(taken, path):
        present = results.load_outcome(path)
        if present.leg < valid_from:
            raise FileNotFoundError(path)  # that one goes first
        if present.token != head.token:
            return False
    atomic.sync_directory(attempt_dir)
    atomic.remove(taken)
    return True


def _of_leg(attempt_dir: Path, head: ResultHead) -> Path:
    return evidence.keep(attempt_dir, f"leg-{head.leg}", {})
