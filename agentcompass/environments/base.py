"""What an environment promises (contracts, §9), and what plug-ins see of one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from agentcompass.models.base import NoParams
from agentcompass.models.task import TaskResources

Command: TypeAlias = str | Sequence[str]
"""A string is run by `sh -c`; a sequence is run as it is."""

OUTSIDE: Final = ".outside"
"""An environment that may leave something outside of this machine's processes, a container, writes
a file of this name into the folder of its plan. It holds the `module:Class` whose `reap` removes it."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The end of one command.

    Output is decoded as UTF-8 (undecodable bytes as U+FFFD), at most the environment's output
    limit per stream; where something was cut a marker says how much, and `*_bytes` are the true
    sizes.
    """

    exit_code: int
    """Negative: ended by that signal."""
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    duration_s: float
    timed_out: bool = False
    truncated: bool = False
    """A stream was longer than the limit: its middle is missing."""


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """What one environment is started for."""

    token: str
    """The execution; labels every process and container, so that a reaper finds them."""
    work_dir: Path
    """Exists, empty, private; the environment may use it and everything below."""
    env: Mapping[str, str]
    """Variables for its commands, secrets already resolved; nothing else is inherited."""
    resources: TaskResources = field(default_factory=TaskResources)
    labels: Mapping[str, str] = field(default_factory=dict)
    """For people who look at what runs: `run`, `task`, `attempt`."""


class EnvironmentHandle(Protocol):
    """What plug-ins see. An `async def` plug-in method gets one whose calls are awaitable."""

    @property
    def work_dir(self) -> str:
        """The agent's working directory, as a path inside the environment."""

    def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdin: str | None = None,
    ) -> ExecResult:
        """Run a command to its end; a time-out ends it and everything that it started."""

    def upload(self, source: Path, target: str) -> None:
        """Copy a file or folder in; `target` is relative to `work_dir` or absolute inside."""

    def download(self, source: str, target: Path) -> None:
        """Copy a file or folder out; links are never followed out of the environment."""


ParamsT = TypeVar("ParamsT", bound=BaseModel)


class Environment(Generic[ParamsT]):
    """Where the agent's actions take effect. One object per attempt phase: start, use, close."""

    id: ClassVar[str]
    Params: ClassVar[type[BaseModel]] = NoParams
    bounds_itself: ClassVar[bool] = False
    """True if `start`, `quiesce` and `close` are known to end soon, so that nobody need watch them."""
    makes_its_folder: ClassVar[bool] = False
    """True if the folder of its plan is not there before it makes it: many attempts need none."""

    def __init__(self, params: ParamsT) -> None:
        self.params = params

    @property
    def work_dir(self) -> str:
        """The agent's working directory, as a path inside the environment."""
        raise NotImplementedError

    @classmethod
    def reap(cls, dead_tokens: Collection[str]) -> int:  # noqa: ARG003 - a default that is replaced
        """Remove what dead executions of this machine left outside of it; returns how many.

        Never called for what still runs. Processes of the machine are found without this.
        """
        return 0

    def start(self, plan: EnvironmentPlan) -> Awaitable[None] | None:
        """Make it ready; raising here is FATAL setup `setup_failed`."""
        raise NotImplementedError

    def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdin: str | None = None,
    ) -> ExecResult | Awaitable[ExecResult]:
        """Run a command to its end; see `EnvironmentHandle.exec`."""
        raise NotImplementedError

    def upload(self, source: Path, target: str) -> Awaitable[None] | None:
        """Copy in; see `EnvironmentHandle.upload`."""
        raise NotImplementedError

    def download(self, source: str, target: Path) -> Awaitable[None] | None:
        """Copy out; see `EnvironmentHandle.download`."""
        raise NotImplementedError

    def quiesce(self) -> Awaitable[None] | None:
        """End everything that still runs inside, before anything is collected or evaluated."""
        raise NotImplementedError

    def close(self) -> Awaitable[None] | None:
        """End and remove everything; idempotent; what fails here is a WARNING of phase cleanup."""
        raise NotImplementedError


def remove_tree(path: Path) -> None:
    """Remove a folder, whatever modes its entries have and however deep it is; missing is fine.

    Raises:
        OSError: something in it belongs to another user.
    """
    try:
        path.rmdir()  # most attempts leave nothing, and this is much cheaper
    except FileNotFoundError:
        return
    except OSError:
        _remove_full(path)


def _remove_full(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except RecursionError:
        # An agent can nest folders deeper than Python can recurse.
        subprocess.run(["rm", "-rf", "--", os.fspath(path)], check=True)  # noqa: S607 - POSIX has it
    except OSError:
        _allow_everything(path)
        shutil.rmtree(path)


def _allow_everything(folder: Path) -> None:
    folder.chmod(stat.S_IRWXU)
    for root, names, _ in os.walk(folder):
        for name in names:
            below = Path(root, name)
            if not below.is_symlink():
                below.chmod(stat.S_IRWXU)  # before the walk goes down into it
