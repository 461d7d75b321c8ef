"""An environment in a container of its own, made from the image of the task."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from uuid import uuid4

from pydantic import Field

from agentcompass.environments import files
from agentcompass.environments.base import (
    OUTSIDE,
    Command,
    Environment,
    EnvironmentPlan,
    ExecResult,
)
from agentcompass.environments.docker import archives, engine, images, leftovers
from agentcompass.environments.docker.execs import CommandsStuck, ContainerCommand, run
from agentcompass.environments.shell import in_shell
from agentcompass.models.base import Frozen
from agentcompass.models.task import TaskResources

if TYPE_CHECKING:
    from docker import DockerClient

_DEFAULT_WORK_DIR: Final = "/workspace"
_TMP: Final = "/tmp"  # noqa: S108 - the container's
_KEEP_ALIVE: Final = ("/bin/sh", "-c", 'trap "" TERM INT HUP; while :; do sleep 3600; done')
"""What a container lives for; it outlives an agent's `pkill sleep`."""
_OWN_PROCESSES: Final = 3
"""The engine's init, the shell above and its sleep."""
_MAX_LINKS: Final = 8
_LATE_TRIES: Final = 10
"""An engine may still be making a container when whoever asked for it was interrupted."""
_DAY_S: Final = 86_400
_REAP_CALL_S: Final = 20.0
_LOOK_ROUND: Final = f'id -u; id -g; [ -d "$1" ] || echo "$1"; [ -d {_TMP} ] || echo {_TMP}'


class DockerParams(Frozen):
    """What a container is made of and may use; null means no limit beyond the machine's."""

    image: str | None = None
    """For tasks without one of their own (`resources.image`)."""
    dockerfile: str | None = None
    """Absolute path on the workers; its folder is the build's context. Instead of an image."""
    build_root: str | None = None
    """Folder on the workers below which the tasks' own Dockerfiles (`resources.dockerfile`) lie."""
    build_network: str | None = None
    """Network of a build; null is the engine's default, which reaches the outside."""
    built_image_days: float | None = Field(default=30, ge=0)
    """Images that were built and are older are removed now and then, if no container needs them; null
    keeps them for ever."""
    pull: Literal["missing", "never", "always"] = "missing"
    network: str = Field(default="none", min_length=1)
    """Name of an engine's network; `bridge` reaches the outside."""
    cpus: float | None = Field(default=None, gt=0)
    """A task's own `resources.cpus` goes before it; so it is with memory."""
    memory_bytes: int | None = Field(default=None, gt=0)
    """Of the whole container; there is no swap beyond it."""
    shared_memory_bytes: int | None = Field(default=None, gt=0)
    processes: int | None = Field(default=4_096, gt=0)
    """Of the whole container, threads included."""
    user: str | None = None
    """Who runs the commands; null is the image's own user."""
    work_dir: str | None = Field(default=None, pattern="^/.+")
    """Null is the image's own, or `/workspace` if that is the root."""
    env: dict[str, str] = Field(default_factory=dict)
    """Further variables of its commands; never secrets."""
    output_limit_bytes: int = Field(default=1 << 20, ge=1_024)
    """What is kept of each output stream, half of its beginning and half of its end."""
    download_limit_bytes: int = Field(default=16 << 30, gt=0)
    """Of one file or folder that is copied out."""


class Docker(Environment[DockerParams]):
    """A container of the task's image: limited, without a network unless asked for, removed at the end."""

    id: ClassVar[str] = "docker"
    Params = DockerParams

    _has_swept: ClassVar[bool] = False

    def __init__(self, params: DockerParams) -> None:
        super().__init__(params)
        self._client: DockerClient | None = None
        self._container = f"agentcompass-{uuid4().hex}"
        self._work_dir = params.work_dir or _DEFAULT_WORK_DIR
        self._env: dict[str, str] = {}
        self._owner = (0, 0)
        self._is_asked_for = False
        self._is_made = False
        self._may_begin_late = False
        """A call was cut off; the engine may begin its command after we have looked what runs."""

    @property
    def work_dir(self) -> str:
        """The agent's working directory."""
        return self._work_dir

    @classmethod
    def reap(cls, dead_tokens: Collection[str]) -> int:
        """Remove the containers of dead executions, and others that nobody will ever close."""
        if not engine.may_exist():
            return 0
        client = engine.connect(_REAP_CALL_S)
        try:
            return leftovers.remove(client.api, dead_tokens)
        finally:
            client.close()

    def start(self, plan: EnvironmentPlan) -> None:
        """Get the image, start the container, and make the working directory.

        Raises:
            EngineUnavailable: the SDK or the engine is missing.
            ImageUnavailable: the image cannot be pulled or built.
            ValueError: neither task nor parameters name an image.
        """
        files.write(plan.work_dir / OUTSIDE, f"{type(self).__module__}:{type(self).__qualname__}")
        self._client = engine.connect()
        self._sweep_once()
        image = self._image(plan.resources)
        self._env = {
            "TMPDIR": _TMP,
            **self.params.env,
            **plan.env,
            "AGENTCOMPASS_TOKEN": plan.token,
        }
        self._is_asked_for = True
        self._client.containers.create(image, list(_KEEP_ALIVE), **self._settings(plan))
        self._is_made = True
        found = self._api.inspect_container(self._container)["Config"]
        if self.params.work_dir is None:
            own = found.get("WorkingDir") or "/"
            self._work_dir = own if own != "/" else _DEFAULT_WORK_DIR
        self._api.start(self._container)
        self._make_ready()

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
        folder = self._inside(cwd or ".")
        if cwd is not None and not self._exists(folder):
            raise FileNotFoundError(f"no folder {cwd!r} in the environment")
        argv = in_shell(command)
        if stdin is not None:
            argv = self._reading(stdin, argv)
        wanted = ContainerCommand(
            argv=argv,
            cwd=folder,
            env={**self._env, **(env or {})},
            timeout_s=timeout_s,
            output_limit=self.params.output_limit_bytes,
        )
        try:
            return run(self._api, self._container, wanted)
        except CommandsStuck:
            self._restart()
            raise
        except BaseException:
            self._may_begin_late = True
            raise

    def upload(self, source: Path, target: str) -> None:
        """Copy in; see `EnvironmentHandle.upload`."""
        place = PurePosixPath(self._inside(target))
        parent = place if source.is_dir() else place.parent
        script = 'if [ -d "$1" ]; then echo folder; else mkdir -p "$2"; fi'
        made = self._run(("/bin/sh", "-c", script, "sh", str(place), str(parent)))
        if made.stdout.strip() == "folder":
            parent = place
        name = source.name if parent == place else place.name
        packed = archives.pack(source, name, self._owner)
        self._api.put_archive(self._container, str(parent), packed)

    def download(self, source: str, target: Path) -> None:
        """Copy out; see `EnvironmentHandle.download`."""
        from docker.errors import APIError, NotFound

        place = self._inside(source)
        for _ in range(_MAX_LINKS):
            try:
                chunks, _found = self._api.get_archive(self._container, place)
            except NotFound as error:
                raise FileNotFoundError(f"no {source!r} in the environment") from error
            except APIError as error:
                if "too many links" in str(error):
                    break
                raise
            try:
                archives.unpack(chunks, place, target, self.params.download_limit_bytes)
            except archives.IsLink as link:
                place = str(PurePosixPath(place).parent / link.leads_to)
            else:
                return
            finally:
                _discard(chunks)
        raise ValueError(f"{source!r} is a circle of links")

    def quiesce(self) -> None:
        """End everything but the container itself, whatever it has done not to be found."""
        if self._client is not None and (self._may_begin_late or not self._is_quiet()):
            self._restart()
            self._may_begin_late = False

    def close(self) -> None:
        """Remove the container with everything in it; idempotent."""
        client, self._client = self._client, None
        if client is not None:
            try:
                tries = _LATE_TRIES if self._is_asked_for and not self._is_made else 1
                leftovers.remove_one(client.api, self._container, tries)
            finally:
                client.close()

    @property
    def _api(self) -> Any:
        if self._client is None:
            raise RuntimeError("the environment is not open")
        return self._client.api

    def _sweep_once(self) -> None:
        """Before a process makes its first container it removes what others of its machine left."""
        if not Docker._has_swept:
            Docker._has_swept = True
            leftovers.remove(self._api)
            if self.params.built_image_days is not None and self._client is not None:
                images.prune_built(self._client, self.params.built_image_days * _DAY_S)

    def _image(self, resources: TaskResources) -> str:
        assert self._client is not None  # noqa: S101 - for the type checker
        own = resources.dockerfile
        if own is not None:
            dockerfile = self._tasks_dockerfile(own)
            return images.built(self._client, dockerfile, self.params.build_network)
        image = resources.image or self.params.image
        if image is not None:
            return images.present(self._client, image, self.params.pull)
        if self.params.dockerfile is None:
            raise ValueError(
                "neither the task (resources.image, resources.dockerfile) nor the request "
                "(environment.image, environment.dockerfile) names what the container is made of"
            )
        return images.built(self._client, Path(self.params.dockerfile), self.params.build_network)

    def _tasks_dockerfile(self, name: str) -> Path:
        if self.params.build_root is None:
            raise ValueError(
                f"the task names the Dockerfile {name!r}; environment.build_root is not set"
            )
        root = Path(self.params.build_root).resolve()
        found = (root / name).resolve()
        if not found.is_relative_to(root):
            raise ValueError(f"the task's Dockerfile {name!r} is outside of environment.build_root")
        return found

    def _settings(self, plan: EnvironmentPlan) -> dict[str, Any]:
        params, resources = self.params, plan.resources
        memory = resources.memory_bytes or params.memory_bytes
        cpus = resources.cpus or params.cpus
        wanted: dict[str, Any] = {
            "nano_cpus": int(cpus * 1e9) if cpus else None,
            "mem_limit": memory,
            "memswap_limit": memory,
            "pids_limit": params.processes,
            "shm_size": params.shared_memory_bytes,
            "user": params.user,
            "device_requests": _gpus(resources.gpus),
        }
        return {
            **{name: value for name, value in wanted.items() if value is not None},
            "name": self._container,
            "entrypoint": [],
            "init": True,
            "network_mode": params.network,
            "security_opt": ["no-new-privileges"],
            "labels": {
                **{f"agentcompass.{name}": value for name, value in plan.labels.items()},
                leftovers.TOKEN: plan.token,
                leftovers.OWNER: leftovers.owner(),
            },
        }

    def _make_ready(self) -> None:
        """Make the folders that the image has not. The engine does it: the user may not be allowed."""
        argv = ("/bin/sh", "-c", _LOOK_ROUND, "sh", self._work_dir)
        uid, gid, *missing = self._run(argv, cwd="/").stdout.splitlines()
        self._owner = (int(uid), int(gid))
        for folder in missing:
            mode = 0o1777 if folder == _TMP else 0o755
            made = archives.of_folder(folder.lstrip("/"), mode, self._owner)
            self._api.put_archive(self._container, "/", made)

    def _inside(self, name: str) -> str:
        return str(PurePosixPath(self._work_dir, name))

    def _exists(self, place: str) -> bool:
        from docker.errors import NotFound

        try:
            chunks, _ = self._api.get_archive(self._container, f"{place}/.")
        except NotFound:
            return False
        _discard(chunks)
        return True

    def _reading(self, text: str, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Put the input into a file, which is unlinked as soon as the command has it open."""
        data = text.encode("utf-8", "surrogateescape")
        name = f".stdin-{uuid4().hex}"
        self._api.put_archive(self._container, _TMP, archives.of_bytes(name, data, self._owner))
        script = 'exec < "$0" && rm -f "$0" && exec "$@"'
        return "/bin/sh", "-c", script, f"{_TMP}/{name}", *argv

    def _run(self, argv: tuple[str, ...], cwd: str | None = None) -> ExecResult:
        """Run a command of our own, which must succeed."""
        command = ContainerCommand(argv, cwd or self._work_dir, {}, engine.CALL_S, 1 << 16)
        made = run(self._api, self._container, command)
        if made.exit_code != 0:
            raise RuntimeError(made.stderr.strip() or made.stdout.strip())
        return made

    def _is_quiet(self) -> bool:
        from docker.errors import APIError

        try:
            running: list[object] = self._api.top(self._container)["Processes"]
        except APIError:
            return False  # it does not run, or the engine has no `ps`
        return len(running) <= _OWN_PROCESSES

    def _restart(self) -> None:
        """Kill every process of the container; its files stay."""
        self._api.restart(self._container, timeout=0)


def _discard(chunks: Generator[bytes, None, None]) -> None:
    """Let go of the connection of an answer; the SDK does that only once it was begun."""
    next(chunks, None)
    chunks.close()


def _gpus(count: int | None) -> list[Any] | None:
    if not count:
        return None
    from docker.types import DeviceRequest

    return [DeviceRequest(count=count, capabilities=[["gpu"]])]
