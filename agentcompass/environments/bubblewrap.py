"""An environment in a sandbox of Linux namespaces, made by `bwrap`; needs no root and no image.

Inside there are the system's programs and libraries, read-only, and of the machine's files nothing
else: own processes, an own `/tmp` and home, a working directory, and no network unless asked for.

Each command has processes of its own: it neither sees nor ends those of another one. Files, and the
loopback of a sandbox without a network, are those of all commands of one environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final, Literal

from pydantic import Field

from agentcompass.environments import files
from agentcompass.environments.base import (
    Command,
    Environment,
    EnvironmentPlan,
    ExecResult,
    remove_tree,
)
from agentcompass.environments.commands import Commands
from agentcompass.environments.limits import ProcessLimits, check_host, gpu_devices
from agentcompass.environments.mounts import Mounts
from agentcompass.environments.network import NetworkUnavailable, OwnNetwork, enter_program
from agentcompass.environments.shell import in_shell, with_signal
from agentcompass.environments.supervised import Order
from agentcompass.errors import PermanentFailure

WORK_DIR: Final = "/workspace"
HOME: Final = "/home/agent"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROBE_S: Final = 30.0
_FOLDERS: Final = {"work": WORK_DIR, "home": HOME, "tmp": "/tmp"}  # noqa: S108 - inside, and private
_LIBRARIES: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into `/usr` nowadays, folders of their own on older systems."""
_SETTINGS: Final = (
    "alternatives", "bash.bashrc", "ca-certificates", "crypto-policies", "debian_version",
    "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types",
    "nsswitch.conf", "os-release", "perl", "pki/ca-trust", "pki/tls/certs", "profile", "protocols",
    "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
)  # fmt: skip
"""What programs want of `/etc`; whatever else is there may be secret."""
_NETWORK_SETTINGS: Final = ("gai.conf", "hosts", "resolv.conf")


class BubblewrapParams(ProcessLimits):
    """What the sandbox may see and use; null means no limit beyond the machine's."""

    network: Literal["none", "host"] = "none"
    """`host` shares the machine's network, its own services included."""
    read_only: tuple[str, ...] = ()
    """Further folders or files of the worker that are visible, at the same path; absolute."""
    env: dict[str, str] = Field(default_factory=dict)
    """Further variables of its commands; never secrets."""


class Bubblewrap(Environment[BubblewrapParams]):
    """A sandbox of Linux namespaces: read-only system, private files, no network unless asked for."""

    id: ClassVar[str] = "bubblewrap"
    Params = BubblewrapParams
    bounds_itself = True

    def __init__(self, params: BubblewrapParams) -> None:
        super().__init__(params)
        self._root = Path()
        self._mounts = Mounts({})
        self._env: dict[str, str] = {}
        self._limits: dict[str, int] = {}
        self._sandbox: tuple[str, ...] = ()
        self._network: OwnNetwork | None = None
        self._commands = Commands()
        self._is_open = False

    @property
    def work_dir(self) -> str:
        """The agent's working directory."""
        return WORK_DIR

    def start(self, plan: EnvironmentPlan) -> None:
        """Make the folders, and try the sandbox once.

        Raises:
            SandboxUnavailable: the machine has no `bwrap`, or does not allow it its namespaces.
            ValueError: the task needs what this machine has not, or a path is refused.
        """
        check_host(plan.resources, "a bubblewrap sandbox")
        self._root = plan.work_dir
        self._is_open = True
        for name in (*_FOLDERS, "etc"):
            (self._root / name).mkdir(mode=0o700)
        self._mounts = Mounts({inside: self._root / name for name, inside in _FOLDERS.items()})
        self._limits = self.params.rlimits(plan.resources)
        self._env = self._environment(plan)
        needs_gpus = bool(plan.resources.gpus)
        program = _program()
        enter = enter_program(_searched()) if self.params.network == "none" else None
        if enter is not None:
            try:
                self._network = OwnNetwork(program, enter)
            except (OSError, NetworkUnavailable) as error:
                raise SandboxUnavailable(str(error)) from error
        self._sandbox = (program, *self._arguments(needs_gpus=needs_gpus))
        self._probe()

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
        order = Order(
            argv=(
                *self._entered(),
                *self._sandbox,
                "--chdir",
                self._folder(cwd),
                "--",
                *in_shell(command),
            ),
            cwd="/",
            env={**self._env, **(env or {})},
            timeout_s=timeout_s,
            limits=self._limits,
            output_limit=self.params.output_limit_bytes,
        )
        return with_signal(self._commands.run(order, stdin))

    def upload(self, source: Path, target: str) -> None:
        """Copy in; see `EnvironmentHandle.upload`."""
        self._check_open()
        files.copy_in(source, self._mounts.find(WORK_DIR, target))

    def download(self, source: str, target: Path) -> None:
        """Copy out; see `EnvironmentHandle.download`."""
        self._check_open()
        files.copy_out(self._mounts.find(WORK_DIR, source), target, self._mounts.resolve)

    def quiesce(self) -> None:
        """Kill whatever commands have left running."""
        self._commands.end_all(self._env.get("AGENTCOMPASS_TOKEN", ""))

    def close(self) -> None:
        """Kill everything and remove the folders, whatever modes their entries have."""
        self.quiesce()
        if self._network is not None:
            self._network.close()
            self._network = None
        if self._is_open:
            self._is_open = False
            remove_tree(self._root)

    def _entered(self) -> tuple[str, ...]:
        self._check_open()
        return self._network.entered() if self._network is not None else ()

    def _check_open(self) -> None:
        if not self._is_open:
            raise RuntimeError("the environment is not open")

    def _environment(self, plan: EnvironmentPlan) -> dict[str, str]:
        passed = {name: os.environ[name] for name in self.params.pass_env if name in os.environ}
        return {
            "PATH": _PATH,
            "LANG": "C.UTF-8",
            **passed,
            **self.params.env,
            "HOME": HOME,
            "TMPDIR": _FOLDERS["tmp"],
            **plan.env,
            "AGENTCOMPASS_TOKEN": plan.token,
        }

    def _folder(self, cwd: str | None) -> str:
        self._check_open()
        wanted = str(PurePosixPath(WORK_DIR, cwd or "."))
        try:
            is_there = self._mounts.find(WORK_DIR, wanted).is_dir()
        except ValueError:
            is_there = wanted == "/" or (wanted.startswith("/usr") and Path(wanted).is_dir())
        if not is_there:
            raise FileNotFoundError(f"no folder {cwd!r} in the environment")
        return wanted

    def _arguments(self, *, needs_gpus: bool) -> Iterator[str]:
        yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
        yield from ("--unshare-cgroup-try", "--hostname", "sandbox", "--cap-drop", "ALL")
        if self.params.network == "none" and self._network is None:
            yield "--unshare-net"  # without a program that enters one: each command has its own
        yield from ("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev")
        for path in map(Path, _LIBRARIES):
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            elif path.is_dir():
                yield from _seen(str(path))
        yield from self._settings()
        for device in gpu_devices() if needs_gpus else ():
            yield from ("--dev-bind", str(device), str(device))
        for name, inside in _FOLDERS.items():
            yield from ("--bind", str(self._root / name), inside)
        for wanted in self.params.read_only:
            yield from _seen(_absolute(wanted))
        yield from ("--dir", "/run", "--symlink", _FOLDERS["tmp"], "/var/tmp")  # noqa: S108 - inside
        yield from ("--remount-ro", "/")

    def _settings(self) -> Iterator[str]:
        shared = self.params.network == "host"
        for name in (*_SETTINGS, *(_NETWORK_SETTINGS if shared else ())):
            place = Path("/etc", name)
            if place.exists():
                yield from _seen(str(place))
        own = {"passwd": _passwd(), "group": f"agent:x:{os.getgid()}:\n"}
        if not shared:
            own["hosts"] = "127.0.0.1 localhost sandbox\n::1 localhost\n"
        for name, text in own.items():
            files.write(self._root / "etc" / name, text)
            yield from ("--ro-bind", str(self._root / "etc" / name), f"/etc/{name}")

    def _probe(self) -> None:
        """Say now, and clearly, what would otherwise look like a failure of the first command."""
        try:
            tried = subprocess.run(
                [*self._entered(), *self._sandbox, "--", "/bin/sh", "-c", "exit 0"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PATH": _PATH},
                timeout=_PROBE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailable(str(error)) from error
        if tried.returncode != 0:
            raise SandboxUnavailable(tried.stderr.decode("utf-8", "replace").strip())


class SandboxUnavailable(PermanentFailure):
    """This machine cannot make the sandbox; the message says why and what would help."""

    def __init__(self, reason: str) -> None:
        text = (
            f"bubblewrap cannot make a sandbox here: {reason or 'it gives no reason'}; it needs "
            "Linux, the program bwrap (package bubblewrap) and unprivileged user namespaces"
        )
        super().__init__("fatal", "setup", "setup_failed", text)


def _program() -> str:
    found = shutil.which("bwrap", path=_searched())
    if sys.platform != "linux" or found is None:
        raise SandboxUnavailable("there is no program bwrap")
    return found


def _searched() -> str:
    return f"{os.environ.get('PATH', '')}:{_PATH}"


def _seen(path: str) -> tuple[str, str, str]:
    return "--ro-bind", path, path


def _absolute(path: str) -> str:
    if not PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(f"environment.read_only: {path!r} is not an absolute path")
    if not Path(path).exists():
        raise ValueError(f"environment.read_only: {path!r} does not exist on this worker")
    return path


def _passwd() -> str:
    return f"agent:x:{os.getuid()}:{os.getgid()}::{HOME}:/bin/sh\n"
