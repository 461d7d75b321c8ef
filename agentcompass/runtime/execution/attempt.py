"""One execution of one attempt: what its phases are handed."""

from __future__ import annotations

import errno
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from agentcompass.analyzers.base import Analyzer
from agentcompass.benchmarks.base import Benchmark
from agentcompass.environments.base import remove_tree
from agentcompass.harnesses.base import Harness
from agentcompass.models.context import AttemptContext
from agentcompass.models.limits import Limits
from agentcompass.models.metric import MetricContract
from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.task import TaskSpec
from agentcompass.runtime.bookkeeping import others_go_on
from agentcompass.runtime.calling.interrupts import GRACE_S, Limit, Stopped
from agentcompass.runtime.execution.failures import safe_traceback
from agentcompass.runtime.limits import Turns
from agentcompass.runtime.ports import KillReason, StopSignal, Watch
from agentcompass.runtime.site import Site
from agentcompass.runtime.values.masking import Masker
from agentcompass.store.attempts import AttemptView

HARD_GRACE_S: Final = 2 * GRACE_S
"""A keeper kills when a phase has not ended by itself this long after its deadline."""

_LOGGER: Final = logging.getLogger("agentcompass.attempt")


@dataclass(frozen=True, slots=True)
class Parts:
    """The plug-ins of a plan, built once per process."""

    benchmark: Benchmark[BaseModel]
    harness: Harness[BaseModel] | None
    """None for a benchmark that brings its own agent."""
    analyzers: tuple[Analyzer[BaseModel], ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """The names of one execution."""

    run_id: str
    task_id: str
    attempt: int
    leg: int
    token: str
    worker: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """Everything that an execution knows from its start; it changes nothing in here."""

    identity: Identity
    run_dir: Path
    spec: TaskSpec
    plan: ExecutionPlan
    contract: MetricContract
    parts: Parts
    view: AttemptView
    site: Site
    watch: Watch
    stop: StopSignal
    secrets: Masker
    started_at: datetime
    turns: Turns | None = None
    """None where nobody counts."""
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    """What the run wants to be bounded, by the policy in force."""
    earlier_retries: int = 0
    """Of this attempt's earlier executions."""
    folders: list[Path] = field(default_factory=list)
    """Made so far, private to this execution."""

    def phase(self, seconds: float, reason: KillReason) -> Limit:
        """Begin a phase: return its limit, and let the keeper enforce it with some grace."""
        limit = Limit.starting_now(seconds, self.stop)
        self.watch.until(limit.until + HARD_GRACE_S, reason)
        return limit

    @contextmanager
    def standing_still(self, limit: Limit, reason: KillReason) -> Iterator[None]:
        """Let no time pass for a phase, nor for the keeper, while the execution waits for its turn."""
        self.watch.until(math.inf, reason)
        try:
            with limit.standing_still():
                yield
        finally:
            if not limit.is_standing_still:
                self.watch.until(limit.until + HARD_GRACE_S, reason)

    def pause(self, seconds: float) -> None:
        """Wait before a retry; raises `Stopped` if the execution is ended meanwhile."""
        self.watch.until(time.monotonic() + seconds + HARD_GRACE_S, "run_timeout")
        with others_go_on():
            if self.site.sleep is None:
                self.stop.wait(seconds)
            else:
                self.site.sleep(seconds)
        if self.stop.reason is not None:
            raise Stopped(self.stop.reason)

    def unwatched(self) -> None:
        """Lift the deadline: what follows is ours, bounded by the disk, and must not be cut off."""
        self.watch.until(math.inf, "evaluation_timeout")

    def folder(self, name: str) -> Path:
        """Make and return an empty folder of this execution, on the worker's own disk."""
        made = self.place(name)
        try:
            made.mkdir(mode=0o700)
        except FileNotFoundError:  # the first folder of this worker, or somebody cleaned up
            made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made.mkdir(mode=0o700)
        return made

    def place(self, name: str) -> Path:
        """Return where a folder of this execution may be made; it is removed at the end.

        Raises:
            OSError: the disk is full; then no attempt must fail for it, another worker has room.
        """
        folder = self.site.work_dir / f"{self.identity.token}.{name}"
        self.folders.append(folder)
        _require_room(self.site.work_dir)
        return folder

    def remove_folders(self) -> None:
        """Remove them all, whatever modes the agent left."""
        while self.folders:
            folder = self.folders.pop()
            try:
                remove_tree(folder)
            except OSError as error:
                # Of another user, perhaps; never worth an attempt's result.
                _LOGGER.warning("cannot remove %s: %s", folder, error)

    def context(self, name: str, limit: Limit) -> AttemptContext:
        """Return what a harness is told; its folder is made when it first asks for it."""
        own = self.identity
        return AttemptContext(
            run_id=own.run_id,
            task_id=own.task_id,
            attempt=own.attempt,
            token=own.token,
            make_work_dir=cache(partial(self.folder, name)),
            read_deadline=lambda: limit.until,
            logger=_MaskedLogger(_LOGGER, own, self.secrets),
            progress=_quiet(self.site.progress, self.secrets),
        )


def _require_room(folder: Path) -> None:
    try:
        found = os.statvfs(folder)
    except FileNotFoundError:
        return
    has_names = found.f_ffree > 0 or found.f_files == 0  # some file systems do not count names
    if found.f_bfree == 0 or not has_names:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


class _MaskedLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger for plug-ins whose lines name the attempt and hold no live secret."""

    def __init__(self, logger: logging.Logger, identity: Identity, secrets: Masker) -> None:
        name = f"{identity.run_id}:{identity.task_id}:a{identity.attempt}"
        super().__init__(logger, {"attempt": name})
        self._secrets = secrets

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        if not self._secrets:
            super().log(level, msg, *args, **kwargs)
            return
        text = str(msg) % args if args else str(msg)
        error = kwargs.pop("exc_info", None)
        if error:
            text = f"{text}\n{_traceback_of(error)}"
        super().log(level, "%s", self._secrets(text), **kwargs)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def _traceback_of(error: object) -> str:
    found = error if isinstance(error, BaseException) else sys.exc_info()[1]
    return safe_traceback(found) if found is not None else ""


def _quiet(progress: Callable[[str], None], secrets: Masker) -> Callable[[str], None]:
    def report(line: str) -> None:
        progress(secrets(str(line)))

    return report
