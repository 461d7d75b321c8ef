"""Looking at a run directory: cheap, and without ever following a symbolic link.

Paths are text here and probes go straight to the system: a listing of 100,000 attempts spends
more on building `Path` objects than on looking.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from agentcompass.store.layout import DETAILS, FILED_STATES, STATES, State


def is_file(path: str | Path) -> bool:
    """Return whether a regular file is there; a symbolic link is none."""
    return _has_type(path, stat.S_IFREG)


def is_directory(path: str | Path) -> bool:
    """Return whether a directory is there; a symbolic link is none."""
    return _has_type(path, stat.S_IFDIR)


def _has_type(path: str | Path, wanted: int) -> bool:
    if not os.access(path, os.F_OK):  # half the price of an exception, and most answers are no
        return False
    try:
        return stat.S_IFMT(os.lstat(path).st_mode) == wanted
    except (FileNotFoundError, NotADirectoryError):
        return False


def names(path: str | Path) -> list[str]:
    """Return the names in a directory; FileNotFoundError if it is not there."""
    with os.scandir(path) as entries:
        return [entry.name for entry in entries]


def directories(path: str | Path) -> list[str]:
    """Return the names of the real directories in a directory, none if it is not there."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def read(path: str | Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        FileNotFoundError: it is not there.
        OSError: it is a symbolic link (ELOOP), among other things.
    """
    fd = open_to_read(path)
    try:
        size = os.fstat(fd).st_size
        return read_exactly(fd, size, 0)
    finally:
        os.close(fd)


def version(path: str | Path) -> tuple[int, int, int]:
    """Return what tells a file from any other that had or gets its name.

    Opened for that, because a share may answer out of its cache what a name stands for. The time
    is there because numbers of removed files are given again.

    Raises:
        FileNotFoundError: there is none.
    """
    fd = open_to_read(path)
    try:
        found = os.fstat(fd)
        return found.st_ino, found.st_size, found.st_mtime_ns
    finally:
        os.close(fd)


def open_to_read(path: str | Path) -> int:
    """Return a descriptor of a file; a symbolic link in the last place is refused."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def read_exactly(fd: int, size: int, offset: int) -> bytes:
    """Return up to `size` bytes; fewer only at the end of the file."""
    data = os.pread(fd, size, offset)
    # Linux returns at most 2 GiB at once, and a share may return less.
    while len(data) < size and (more := os.pread(fd, size - len(data), offset + len(data))):
        data += more
    return data


def is_locked(path: str | Path) -> bool:
    """Return whether a process holds the operating system's exclusive lock on a file.

    Opens it for reading only. For a moment the lock is shared with us; whoever wants it then tries
    again.

    Raises:
        OSError: it cannot be read, or its file system has no locks.
    """
    try:
        fd = open_to_read(path)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def find(run_dir: Path, dirname: str) -> tuple[State, str] | None:
    """Return (state, path) of a task's directory, by its name; None if no state has it.

    A filed copy goes before a running one beside it, which is a leftover of somebody who did not
    see the filed one.
    """
    return look(run_dir, dirname) or look(run_dir, dirname)


def look(run_dir: Path, dirname: str) -> tuple[State, str] | None:
    """Look once at every state. A task that is moved by one rename meanwhile can hide from this."""
    running = f"{run_dir}/{DETAILS}/{STATES[0]}/{dirname}"
    is_running = is_directory(running)
    filed = find_filed(run_dir, dirname)
    return filed or ((STATES[0], running) if is_running else None)


def find_filed(run_dir: Path, dirname: str) -> tuple[State, str] | None:
    """Return the filed copy of a task's directory, None if there is none."""
    for state in FILED_STATES:
        path = f"{run_dir}/{DETAILS}/{state}/{dirname}"
        if is_directory(path):
            return state, path
    return None
