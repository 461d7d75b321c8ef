"""The smallest environment that a plug-in can be tested in: a folder and subprocesses."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from agentcompass.environments.base import Command, ExecResult
from agentcompass.errors import EnvironmentFailed


class ProcessEnvironment:
    """Runs commands in a folder; fakes nothing but isolation."""

    def __init__(
        self, folder: Path, *, output_limit: int = 1_000_000, breaks_after: int | None = None
    ) -> None:
        """`breaks_after`: so many commands work, and then none."""
        self.breaks_after = breaks_after
        self.folder = folder
        self.output_limit = output_limit
        self.commands: list[Command] = []
        self.variables: list[Mapping[str, str]] = []

    @property
    def work_dir(self) -> str:
        return str(self.folder)

    def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdin: str | None = None,
    ) -> ExecResult:
        if len(self.commands) == self.breaks_after:
            raise EnvironmentFailed("it is gone")
        self.commands.append(command)
        self.variables.append(dict(env or {}))
        started = time.monotonic()
        try:
            ended = subprocess.run(
                ["sh", "-c", command] if isinstance(command, str) else list(command),
                input=(stdin or "").encode(),
                capture_output=True,
                cwd=cwd or self.folder,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})},
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            return self._ended(-9, late.stdout or b"", late.stderr or b"", started, timed_out=True)
        return self._ended(ended.returncode, ended.stdout, ended.stderr, started)

    def _ended(
        self, code: int, out: bytes, err: bytes, started: float, *, timed_out: bool = False
    ) -> ExecResult:
        return ExecResult(
            exit_code=code,
            stdout=out[: self.output_limit].decode("utf-8", "replace"),
            stderr=err[: self.output_limit].decode("utf-8", "replace"),
            stdout_bytes=len(out),
            stderr_bytes=len(err),
            duration_s=time.monotonic() - started,
            timed_out=timed_out,
            truncated=max(len(out), len(err)) > self.output_limit,
        )

    def upload(self, source: Path, target: str) -> None:
        shutil.copyfile(source, self.folder / target)

    def download(self, source: str, target: Path) -> None:
        shutil.copyfile(self.folder / source, target)
