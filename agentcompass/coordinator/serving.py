"""Whether anybody can execute what is about to be sent: asked before anything is reserved.

A worker that meets a message of another results folder than its own gives it back and, if it has
never done anything, stops: it was started wrongly. So a coordinator with the wrong folder would stop
one worker after the other, and its run would never begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentcompass.coordinator.ports import LiveWorker, Queue
from agentcompass.coordinator.refusal import Refusal
from agentcompass.store.root import ResultsRoot, find_root


def refuse_strangers(queue: Queue, lane: str, results_dir: Path) -> None:
    """Make sure that not all workers that live have another results folder.

    Nobody lives: they may come later. One has no results folder yet: it may be this one.

    Raises:
        Refusal: names both folders, and how to go on.
    """
    living = queue.workers(lane)
    root = find_root(results_dir)
    if not only_strangers(living, root):
        return
    here = f"{results_dir} ({root.digest})" if root else f"{results_dir} (new)"
    other = living[0]
    more = f", and {len(living) - 1} more" if len(living) > 1 else ""
    raise Refusal(
        "other_root",
        f"all workers of queue {lane!r} have another results folder than this run",
        where=f"run: {here}; workers: {other.results_dir} ({other.root}) of {other.name}{more}",
        hint="give --results-dir their folder as this machine mounts it; or, for workers with this "
        f"folder, a queue of its own: --queue NAME here and agentcompass worker --queue NAME "
        f"--results-dir {results_dir} there",
    )


def only_strangers(living: Sequence[LiveWorker], root: ResultsRoot | None) -> bool:
    """Return whether workers live, and none of them can have this results folder."""
    digest = root.digest if root is not None else None
    return bool(living) and all(each.root and each.root != digest for each in living)


def unserved(queue: Queue, lane: str, results_dir: Path) -> str:
    """Return one line if nobody lives who takes attempts of a queue, else ""."""
    if queue.workers(lane):
        return ""
    chosen = "" if lane == "default" else f"--queue {lane} "
    return (
        f"no worker serves queue {lane!r} now; attempts wait for one: "
        f"agentcompass worker --broker … {chosen}--results-dir {results_dir}"
    )
