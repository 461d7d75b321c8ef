"""An environment on the worker's own machine: a folder, a cleared environment, supervised commands.

It separates attempts from one another and from their worker, and leaves nothing behind. It is no
protection against a program that means harm: that program runs as the worker's user.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from agentcompass.environments import files
from agentcompass.environments.base import (
    Command,
    Environment,
    EnvironmentPlan,
    ExecResult,
    remove_tree,
)
from agentcompass.environments.commands import Commands
from agentcompass.environments.limits import ProcessLimits, check_host
from agentcompass.environments.supervised import Order

_INHERITED: Final = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class HostProcessParams(ProcessLimits):
    """Limits of each process of a command; null means none beyond the machine's."""


class HostProcess(Environment[HostProcessParams]):
    """Commands on this machine, in a fresh folder, with nothing left running afterwards."""

    id: ClassVar[str] = "host_process"
    Params = HostProcessParams
    bounds_itself = True
    makes_its_folder = True

    def __init__(self, params: HostProcessParams) -> None:
        super().__init__(params)
        self._root = Path()
        self._env: dict[str, str] = {}
        self._limits: dict[str, int] = {}
        self._commands = Commands()
        self._is_open = False
        self._has_folders = False

    @property
    def work_dir(self) -> str:
        """The agent's working directory."""
        return str(self._root / "work")

    def start(self, plan: EnvironmentPlan) -> None:
        """Check what the task needs; folders and processes are made when they are used."""
        check_host(plan.resources, "a host process")
        self._root = plan.work_dir
        self._limits = self.params.rlimits(plan.resources)
        self._env = self._environment(plan)
        self._is_open = True

    def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        stdin: str | None = None,
    ) -> ExecResult:
        """Run a command; see `EnvironmentHandle.exec`. What it leaves running may go on."""
        argv = ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command)
        order = Order(
            argv=argv,
            cwd=str(self._folder(cwd)),
            env={**self._env, **(env or {})},
            timeout_s=timeout_s,
            limits=self._limits,
            output_limit=self.params.output_limit_bytes,
        )
        return self._commands.run(order, stdin)

    def upload(self, source: Path, target: str) -> None:
        """Copy in; see `EnvironmentHandle.upload`."""
        files.copy_in(source, files.inside(self._opened(), Path(self.work_dir), target))

    def download(self, source: str, target: Path) -> None:
        """Copy out; see `EnvironmentHandle.download`."""
        root = self._opened()
        real = files.inside(root, Path(self.work_dir), source)
        files.copy_out(real, target, partial(files.inside, root, Path(self.work_dir)))

    def quiesce(self) -> None:
        """Kill whatever commands have left running."""
        self._commands.end_all(self._env.get("AGENTCOMPASS_TOKEN", ""))

    def close(self) -> None:
        """Kill everything and remove the folder, whatever modes its entries have."""
        self.quiesce()
        if self._is_open:
            self._is_open = False
            remove_tree(self._root)

    def _environment(self, plan: EnvironmentPlan) -> dict[str, str]:
        names = (*_INHERITED, *self.params.pass_env)
        inherited = {name: os.environ[name] for name in names if name in os.environ}
        return {
            "PATH": _DEFAULT_PATH,
            "LANG": "C.UTF-8",
            **inherited,
            "HOME": self.work_dir,
            "TMPDIR": str(self._root / "tmp"),
            **plan.env,
            "AGENTCOMPASS_TOKEN": plan.token,
        }

    def _opened(self) -> Path:
        """Return the folder of the environment, ready for use."""
        if not self._is_open:
            raise RuntimeError("the environment is not open")
        if not self._has_folders:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in ("work", "tmp"):
                (self._root / name).mkdir(mode=0o700, exist_ok=True)
            self._has_folders = True
        return self._root

    def _folder(self, cwd: str | None) -> Path:
        folder = files.inside(self._opened(), Path(self.work_dir), cwd or ".")
        if not folder.is_dir():
            raise FileNotFoundError(f"no folder {cwd!r} in the environment")
        return folder
