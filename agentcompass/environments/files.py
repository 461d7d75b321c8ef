"""Copies files into and out of a folder that a hostile program may have arranged."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from agentcompass.environments.base import remove_tree

_CHUNK: Final = 1 << 20
_READ_BITS: Final = stat.S_IRUSR | stat.S_IWUSR

Resolve: TypeAlias = Callable[[Path], Path]


def inside(root: Path, base: Path, name: str | Path) -> Path:
    """Return the real place of a path inside of `root`, all links followed.

    Args:
        root: nothing outside of this folder is ever returned.
        base: what a relative name is relative to.
        name: need not exist.

    Raises:
        ValueError: it leads out of `root`.
    """
    real = (base / name).resolve()
    if not real.is_relative_to(root.resolve()):
        raise ValueError(f"{str(name)!r} is outside of the environment")
    return real


def write(path: Path, text: str) -> None:
    """Make a small file of our own."""
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def copy_in(source: Path, target: Path) -> None:
    """Copy a file or a folder, links as links, over whatever is there.

    `target` is a real path, as `inside` returns it. Nothing is written through a link that lies
    below it: whoever put it there might have aimed it at us.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if not source.is_dir() and target.is_dir():
        target /= source.name
    todo = [(source.resolve(), target)]
    while todo:
        each, copy = todo.pop()
        mode = each.lstat().st_mode
        if stat.S_ISDIR(mode):
            _make_folder(copy)
            copy.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
            todo += [(below, copy / below.name) for below in each.iterdir()]
        elif stat.S_ISLNK(mode):
            _clear(copy)
            copy.symlink_to(each.readlink())
        elif stat.S_ISREG(mode):
            _clear(copy)
            _copy_file(each, copy)


def _make_folder(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        _clear(path)
        path.mkdir()


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def copy_out(source: Path, target: Path, resolve: Resolve) -> None:
    """Copy a file or a folder to a place that does not exist yet.

    `source` is a real path, as `inside` returns it. In a folder, links to files inside are copied
    as files; other links, pipes, sockets and devices are left out. Modes that would keep us from
    reading our own files are changed.

    Args:
        resolve: returns where a link leads, and raises ValueError if that is outside.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is neither a file nor a folder.
        PermissionError: it belongs to another user and may not be read.
    """
    mode = source.lstat().st_mode
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISDIR(mode):
        _copy_folder(source, target, resolve)
    elif stat.S_ISREG(mode):
        _copy_file(source, target)
    else:
        raise ValueError(f"{source} is neither a file nor a folder")


def _copy_folder(source: Path, target: Path, resolve: Resolve) -> None:
    todo = [(source, target)]
    while todo:
        folder, copy = todo.pop()
        copy.mkdir()
        for entry in _entries(folder):
            place = Path(entry.path)
            if entry.is_symlink():
                linked = _linked_file(place, resolve)
                if linked is not None:
                    _copy_file(linked, copy / entry.name)
            elif entry.is_dir(follow_symlinks=False):
                todo.append((place, copy / entry.name))
            elif entry.is_file(follow_symlinks=False):
                _copy_file(place, copy / entry.name)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except PermissionError:
        folder.chmod(stat.S_IRWXU)
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)


def _linked_file(link: Path, resolve: Resolve) -> Path | None:
    try:
        real = resolve(link)
        return real if stat.S_ISREG(real.lstat().st_mode) else None
    except (OSError, ValueError, RuntimeError):
        return None


def _copy_file(source: Path, target: Path) -> None:
    with os.fdopen(_open(source), "rb") as reader, target.open("xb") as writer:
        found = os.fstat(reader.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{source} is not a file any more")
        shutil.copyfileobj(reader, writer, _CHUNK)
        os.fchmod(writer.fileno(), stat.S_IMODE(found.st_mode) & 0o777 | _READ_BITS)


def _open(source: Path) -> int:
    # No link is followed at the last step, and a pipe put there meanwhile does not block us.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(source, flags)
    except PermissionError:
        source.chmod(_READ_BITS)
        return os.open(source, flags)
