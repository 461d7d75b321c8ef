"""What a folder holds: to be found while others work in it, or to be compared with a later moment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from glob import glob
from hashlib import sha256
from pathlib import Path
from typing import Final

_ANYWHERE: Final = "**/"


def paths_in(folder: Path, pattern: str) -> Sequence[Path]:
    """Return what matches below a folder, sorted; a first `**/` stands for any depth.

    Nearly everywhere in these tests somebody else writes meanwhile, and before Python 3.13 Path.glob raises
    FileNotFoundError if a folder is filed or swept while it looks.
    """
    if not pattern.startswith(_ANYWHERE):
        names = glob(pattern, root_dir=folder, include_hidden=True)  # noqa: PTH207
        return sorted(folder / name for name in names)
    tail = pattern.removeprefix(_ANYWHERE)
    return sorted(
        path
        for root, folders, files in os.walk(folder)
        for name in (*folders, *files)
        if (path := Path(root, name)).match(tail)
    )


def files_in(folder: Path) -> Mapping[Path, bytes]:
    """Return the content of every file below; what went before it was read is left out."""
    found = {}
    for path in paths_in(folder, "**/*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                found[path] = path.read_bytes()
    return found


def published_in(folder: Path) -> int:
    """Count the attempts below that have a result; one whose task is filed meanwhile counts once."""
    paths = paths_in(folder, "**/details/*/*/attempt-*/result.json")
    return len({(path.parents[4], path.parents[1].name, path.parents[0].name) for path in paths})


def tree_of(folder: Path) -> Mapping[str, str]:
    """Return relative path -> what stands there: a digest, a link's target, or that it is a folder."""
    return {str(path.relative_to(folder)): _what(path) for path in paths_in(folder, "**/*")}


def whole_lines(text: str) -> list[str]:
    """Return the lines of a file that others append to; the last one may be half there."""
    return text[: text.rfind("\n") + 1].splitlines()


def _what(path: Path) -> str:
    try:
        if path.is_symlink():
            return f"link to {path.readlink()}"
        if path.is_dir():
            return "folder"
        return sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return "gone meanwhile"
