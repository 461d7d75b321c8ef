"""Paths inside of a sandbox, and the folders of ours that are mounted there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

_MAX_LINKS: Final = 40
"""As many as the kernel follows."""


class Mounts:
    """Finds the real place of a path inside: links mean there what they mean to a program inside.

    Args:
        folders: absolute path inside -> our folder that is mounted there.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = {PurePosixPath(inside): ours for inside, ours in folders.items()}

    def find(self, base: str, name: str) -> Path:
        """Return our path of a name inside, all links followed; it need not exist.

        Args:
            base: absolute path inside that a relative name is relative to.
            name: any path.

        Raises:
            ValueError: it does not lead into one of the folders.
        """
        here = PurePosixPath("/")
        parts = [*reversed(PurePosixPath(base, name).parts[1:])]
        links = 0
        while parts:
            part = parts.pop()
            here = here.parent if part == ".." else here / part
            link = self._link_at(here)
            if link is not None:
                links += 1
                if links > _MAX_LINKS:
                    raise ValueError(f"{name!r} is a circle of links")
                here = PurePosixPath("/") if link.is_absolute() else here.parent
                parts += reversed([part for part in link.parts if part != "/"])
        found = self._ours(here)
        if found is None:
            raise ValueError(f"{name!r} is outside of what belongs to the environment")
        return found

    def resolve(self, path: Path) -> Path:
        """Return where a path of ours, below one of the folders, leads if it is seen from inside."""
        for inside, ours in self._folders.items():
            if path.is_relative_to(ours):
                return self.find(str(inside), path.relative_to(ours).as_posix())
        raise ValueError(f"{path} is not in the environment")

    def _ours(self, here: PurePosixPath) -> Path | None:
        for inside, ours in self._folders.items():
            if here.is_relative_to(inside):
                return ours / here.relative_to(inside)
        return None

    def _link_at(self, here: PurePosixPath) -> PurePosixPath | None:
        place = self._ours(here)
        try:
            return PurePosixPath(place.readlink()) if place is not None else None
        except OSError:
            return None  # no link, or nothing there
