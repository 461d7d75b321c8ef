"""An attempt as one execution has found it, and where it is by now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from agentcompass.errors import RunNotFound
from agentcompass.store import disk, layout
from agentcompass.store.layout import State
from agentcompass.store.marks import KillNote, StartMark
from agentcompass.store.names import task_dirname

_T = TypeVar("_T")
_LOOKUPS: Final = 8
"""A task moves at most twice in a leg; more lookups than this mean that the run itself is gone."""


@dataclass(slots=True)
class AttemptView:
    """What `attempts.begin` has found; the other functions of `store.attempts` take it back."""

    directory: Path
    """Where it stood when last looked at."""
    token: str
    state: str
    """Of the task: `running`, `normal`, `error` or `fatal`."""
    is_published: bool
    """There is a result that counts: nothing is left to do."""
    has_checkpoint: bool
    marks: tuple[StartMark, ...]
    """Of other executions, in the order of their beginnings."""
    kill_note: KillNote | None
    """The latest one left for another execution."""
    run_dir: Path
    task_id: str
    attempt: int
    valid_from_leg: int = 1
    is_anchored: bool = False
    """This execution has synced the task's directory, so the attempt's own name is on disk."""


def find_task(run_dir: Path, task_id: str) -> tuple[State, Path] | None:
    """Return (state, directory) of a task; None only after all states were looked at twice."""
    found = disk.find(run_dir, task_dirname(task_id))
    return (found[0], Path(found[1])) if found else None


def where(view: AttemptView) -> Path:
    """Return the attempt's directory, looked up again if its task was moved."""
    if disk.is_directory(view.directory):
        return view.directory
    found = find_task(view.run_dir, view.task_id)
    if found is not None:
        view.state = found[0]
        view.directory = found[1] / layout.attempt_dirname(view.attempt)
    return view.directory


def until_it_stays(run_dir: Path, once: Callable[[], _T]) -> _T:
    """Call `once` again as long as the task is moved under it."""
    for _ in range(_LOOKUPS):
        try:
            return once()
        except FileNotFoundError:
            if not disk.is_directory(layout.state_dir(run_dir, "running")):
                raise RunNotFound(run_dir) from None
    return once()
