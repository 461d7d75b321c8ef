"""The connection to a Docker engine; the SDK is imported only here, and only when it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from docker import DockerClient

CALL_S: Final = 60.0
"""An engine that does not answer for so long has failed; to build and to pull may take longer."""
_SOCKET: Final = "/var/run/docker.sock"


class EngineUnavailable(RuntimeError):
    """There is no Docker engine to work with; the message says why and what would help."""


def connect(timeout_s: float = CALL_S) -> DockerClient:
    """Return a connection to the engine that `DOCKER_HOST` names, or to that of this machine.

    Raises:
        EngineUnavailable: the SDK is not installed, or no engine answers.
    """
    try:
        import docker
    except ImportError as error:
        raise EngineUnavailable(
            "the environment docker needs the Docker SDK on the worker: "
            "pip install 'agentcompass-distributed[docker]'"
        ) from error
    try:
        return docker.from_env(timeout=int(timeout_s))
    except docker.errors.DockerException as error:
        raise EngineUnavailable(
            f"no Docker engine answers at {address()}: {error}; start one, or set DOCKER_HOST"
        ) from error


def address() -> str:
    """Return where the engine is expected."""
    return os.environ.get("DOCKER_HOST") or f"unix://{_SOCKET}"


def may_exist() -> bool:
    """Return False if there is certainly no engine, which costs next to nothing to find out."""
    return bool(os.environ.get("DOCKER_HOST")) or Path(_SOCKET).exists()
