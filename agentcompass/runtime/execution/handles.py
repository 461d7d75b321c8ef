"""What plug-ins hold of an environment: for as long as their call lasts, and not longer.

A `def` method gets calls that block, an `async def` method calls that can be awaited, whatever
the environment itself is made of. When the environment fails, the error says that it was the
environment and not the plug-in; a missing file or a wrong argument is the plug-in's own affair.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel

from agentcompass.environments.base import (
    Command,
    Environment,
    EnvironmentHandle,
    ExecResult,
)
from agentcompass.errors import AttemptFailure, EnvironmentFailed
from agentcompass.runtime.calling.calls import is_async
from agentcompass.runtime.calling.interrupts import Limit
from agentcompass.runtime.calling.loop import call_in_loop, in_thread

T = TypeVar("T")
_CALLERS_OWN = (FileNotFoundError, FileExistsError, NotADirectoryError, ValueError, TypeError)


class _Handle:
    """What both kinds share."""

    def __init__(self, environment: Environment[BaseModel], limit: Limit) -> None:
        self._environment = environment
        self._limit = limit
        self.is_revoked = False

    @property
    def work_dir(self) -> str:
        """See `EnvironmentHandle.work_dir`."""
        return self._environment.work_dir

    def _open(self) -> Environment[BaseModel]:
        if self.is_revoked:
            raise EnvironmentFailed(
                "this step of the attempt is over; its environment is not yours"
            )
        return self._environment


class BlockingHandle(_Handle):
    """For `def` methods."""

    def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdin: str | None = None,
    ) -> ExecResult:
        """See `EnvironmentHandle.exec`."""
        call = partial(
            self._open().exec, command, cwd=cwd, env=env, timeout_s=timeout_s, stdin=stdin
        )
        return self._call(call)

    def upload(self, source: Path, target: str) -> None:
        """See `EnvironmentHandle.upload`."""
        return self._call(partial(self._open().upload, source, target))

    def download(self, source: str, target: Path) -> None:
        """See `EnvironmentHandle.download`."""
        return self._call(partial(self._open().download, source, target))

    def _call(self, fn: Callable[[], T | Awaitable[T]]) -> T:
        try:
            if is_async(fn):
                return call_in_loop(self._limit, cast("Callable[[], Awaitable[T]]", fn))
            return cast("T", fn())
        except (AttemptFailure, EnvironmentFailed, *_CALLERS_OWN):
            raise
        except Exception as error:
            raise EnvironmentFailed(f"{type(error).__name__} in the environment") from error


class AwaitableHandle(_Handle):
    """For `async def` methods; satisfies the same protocol but for the `await`."""

    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdin: str | None = None,
    ) -> ExecResult:
        """See `EnvironmentHandle.exec`."""
        call = partial(
            self._open().exec, command, cwd=cwd, env=env, timeout_s=timeout_s, stdin=stdin
        )
        return await self._call(call)

    async def upload(self, source: Path, target: str) -> None:
        """See `EnvironmentHandle.upload`."""
        await self._call(partial(self._open().upload, source, target))

    async def download(self, source: str, target: Path) -> None:
        """See `EnvironmentHandle.download`."""
        await self._call(partial(self._open().download, source, target))

    async def _call(self, fn: Callable[[], T | Awaitable[T]]) -> T:
        try:
            if is_async(fn):
                return await cast("Awaitable[T]", fn())
            return await in_thread(cast("Callable[[], T]", fn))
        except (AttemptFailure, EnvironmentFailed, *_CALLERS_OWN):
            raise
        except Exception as error:
            raise EnvironmentFailed(f"{type(error).__name__} in the environment") from error


@contextmanager
def lent(
    environment: Environment[BaseModel], method: Callable[..., object], limit: Limit
) -> Iterator[EnvironmentHandle]:
    """Yield the handle that suits a plug-in's method; it is worthless when the context ends."""
    kind = AwaitableHandle if is_async(method) else BlockingHandle
    handle = kind(environment, limit)
    try:
        yield cast("EnvironmentHandle", handle)
    finally:
        handle.is_revoked = True
