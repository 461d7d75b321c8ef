"""What an environment promises (contracts, §9), and what plug-ins see of one."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from agentcompass.models.base import NoParams
from agentcompass.models.task import TaskResources

Command: TypeAlias = str | Sequence[str]
"""A string is run by `sh -c`; a sequence is run as it is."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The end of one command.

    Output is decoded as UTF-8 (undecodable bytes as U+FFFD), at most the environment's output
    limit per stream; `*_bytes` are the true sizes, so a larger number means that it was cut.
    """

    exit_code: int
    """Negative: ended by that signal."""
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    duration_s: float
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """What one environment is started for."""

    token: str
    """The execution; labels every process and container, so that a reaper finds them."""
    work_dir: Path
    """Exists, empty, private; the environment may use it and everything below."""
    env: Mapping[str, str]
    """Variables for its commands, secrets already resolved; nothing else is inherited."""
    resources: TaskResources = TaskResources()


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

    def __init__(self, params: ParamsT) -> None:
        self.params = params

    @property
    def work_dir(self) -> str:
        """The agent's working directory, as a path inside the environment."""
        raise NotImplementedError

    def start(self, plan: EnvironmentPlan) -> None | Awaitable[None]:
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

    def upload(self, source: Path, target: str) -> None | Awaitable[None]:
        """Copy in; see `EnvironmentHandle.upload`."""
        raise NotImplementedError

    def download(self, source: str, target: Path) -> None | Awaitable[None]:
        """Copy out; see `EnvironmentHandle.download`."""
        raise NotImplementedError

    def quiesce(self) -> None | Awaitable[None]:
        """End everything that still runs inside, before anything is collected or evaluated."""
        raise NotImplementedError

    def close(self) -> None | Awaitable[None]:
        """End and remove everything; idempotent; what fails here is a WARNING of phase cleanup."""
        raise NotImplementedError
