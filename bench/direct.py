"""Attempts delivered in one process, without queue, workers and leases: what the runtime costs.

    python -m bench.direct FOLDER COUNT

prints CPU and wall seconds of all of them and how often they called the disk, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentcompass.models.message import AttemptMessage
from agentcompass.runtime.deliver import deliver
from agentcompass.runtime.ports import Done, Execution, KillReason, LeaseKey, LeaseTaken, Watch
from agentcompass.runtime.site import Site
from agentcompass.store import atomic, tasks
from agentcompass.store.root import ResultsRoot, find_root
from bench.made import make_run, now


class NoLeases:
    """Nobody else is there."""

    def take(self, key: LeaseKey, token: str, *, worker: str) -> LeaseTaken:
        return LeaseTaken()

    def release(self, key: LeaseKey, token: str) -> None:
        return

    def is_lost(self, key: LeaseKey, token: str) -> bool:
        return False


class NoWatch:
    """Ends nothing."""

    def until(self, deadline_monotonic_s: float, reason: KillReason) -> None:
        return


class NoKeeper:
    """Watches over nothing."""

    @contextmanager
    def watch(self, execution: Execution) -> Iterator[Watch]:
        yield NoWatch()


class CountingOs:
    """Stands in for `os` where the disk is changed."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(os, name)


def main(folder: Path, count: int) -> None:
    """Execute `count` attempts and say what they cost."""
    folder.mkdir(parents=True)
    run_dir = make_run(folder / "results", count, done=0)
    root = find_root(folder / "results")
    if root is None:
        raise RuntimeError("the results folder has no id")
    site = Site(root=root, worker="direct", work_dir=folder / "work", now=now)
    messages = list(_messages(root, run_dir))
    _execute(messages[:1], site)  # loads the plug-ins
    before, start = _cpu_s(), time.perf_counter()
    _execute(messages[1:-1], site)
    spent = {"cpu_s": _cpu_s() - before, "wall_s": time.perf_counter() - start, "count": count - 2}
    counting = CountingOs()
    setattr(atomic, "os", counting)  # noqa: B010 - not for type checkers
    _execute(messages[-1:], site)
    print(json.dumps(spent | {"calls": counting.calls, "files": _files(run_dir) // count}))


def _messages(root: ResultsRoot, run_dir: Path) -> Iterator[AttemptMessage]:
    ref = run_dir.relative_to(root.path).as_posix()
    for entry in tasks.entries(run_dir):
        yield AttemptMessage(run=ref, root=root.digest, leg=1, offset=entry.offset, attempt=1)


def _execute(messages: list[AttemptMessage], site: Site) -> None:
    leases, keeper = NoLeases(), NoKeeper()
    for message in messages:
        delivered = deliver(message, site, leases, keeper)
        if not isinstance(delivered, Done):
            raise RuntimeError(f"an attempt was not executed: {delivered}")  # noqa: TRY004 - no argument


def _files(run_dir: Path) -> int:
    return sum(path.is_file() for path in run_dir.joinpath("details").rglob("*"))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
