"""The image of a task: there already, pulled, or built from its Dockerfile."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from docker import DockerClient

_lock: Final = threading.Lock()
"""Attempts of one process do not build the same image side by side."""
_CHUNK: Final = 1 << 20
_LABEL: Final = "agentcompass.built"


class ImageUnavailable(RuntimeError):
    """The image cannot be had; the message names it and says why."""


def present(client: DockerClient, name: str, pull: Literal["missing", "never", "always"]) -> str:
    """Return the name of an image that the engine has, pulled if that is wanted and needed.

    Raises:
        ImageUnavailable: the engine does not have it and cannot get it.
    """
    from docker.errors import APIError

    try:
        if pull != "always" and _has(client, name):
            return name
        if pull != "never":
            client.images.pull(name)
            return name
    except APIError as error:
        raise ImageUnavailable(f"the image {name!r} cannot be had: {error}") from error
    raise ImageUnavailable(f"the engine has no image {name!r}, and environment.pull is 'never'")


def built(client: DockerClient, dockerfile: Path, network: str | None) -> str:
    """Return the name of the image that a Dockerfile makes of its folder.

    It is named by the digest of that folder, so that it is built once and again after a change.

    Raises:
        ImageUnavailable: there is no such file, or the build fails.
    """
    from docker.errors import APIError, BuildError

    if not dockerfile.is_file():
        raise ImageUnavailable(f"there is no Dockerfile {dockerfile} on this worker")
    name = f"agentcompass-built:{_digest(dockerfile)}"
    with _lock:
        if _has(client, name):
            return name
        options: dict[str, Any] = {} if network is None else {"network_mode": network}
        try:
            client.images.build(
                path=str(dockerfile.parent),
                dockerfile=dockerfile.name,
                tag=name,
                rm=True,
                forcerm=True,
                labels={_LABEL: "yes"},
                **options,
            )
        except BuildError as error:
            log = "".join(str(line.get("stream", "")) for line in error.build_log)[-500:]
            raise ImageUnavailable(f"{dockerfile} cannot be built: {error}; {log}") from error
        except APIError as error:
            raise ImageUnavailable(f"{dockerfile} cannot be built: {error}") from error
    return name


def prune_built(client: DockerClient, older_than_s: float) -> int:
    """Remove images that `built` has made, that are older and of which no container is made.

    Returns:
        How many; another pruning at the same time leaves nothing to do.
    """
    from docker.errors import APIError

    filters = {"dangling": False, "label": _LABEL, "until": f"{older_than_s:.0f}s"}
    try:
        found = client.images.prune(filters=filters)
    except APIError:  # one is going on already, or the engine cannot: it is only tidying up
        return 0
    return sum("Untagged" in each for each in found.get("ImagesDeleted") or ())


def _has(client: DockerClient, name: str) -> bool:
    from docker.errors import ImageNotFound

    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def _digest(dockerfile: Path) -> str:
    """Return 32 hex digits of the build's folder and of which file in it gives the orders."""
    total = hashlib.sha256(dockerfile.name.encode())
    for root, folders, names in os.walk(dockerfile.parent):
        folders.sort()
        for name in sorted(names):
            path = Path(root, name)
            relative = path.relative_to(dockerfile.parent).as_posix()
            total.update(
                f"\0{relative}\0{path.lstat().st_mode}\0".encode("utf-8", "surrogateescape")
            )
            if path.is_symlink():
                total.update(os.fsencode(path.readlink()))
            elif path.is_file():
                _add_content(total, path)
    return total.hexdigest()[:32]


def _add_content(total: Any, path: Path) -> None:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
