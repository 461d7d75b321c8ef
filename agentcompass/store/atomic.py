"""The only module that changes what is on the disk, and the only one that publishes bytes.

A crash at any point leaves the old state, the new state, or the old state and a stray `.tmp-*`
file beside the target; never part of a file under its final name. tests/fault proves it call by
call. The temporary file lies beside its target, because a rename works only inside one file
system, and has a random name, because two writers of one temporary file would mix their bytes.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Final, TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]
"""Text is what the hot paths hand over: a `Path` per call costs as much as some of the calls."""

TEMP_PREFIX: Final = ".tmp-"
"""Readers ignore every name that begins with this."""

_CHUNK: Final = 1 << 18
_FICLONE: Final = 0x40049409
"""Linux' number for "make this file a copy of that one, sharing its blocks" (ioctl_ficlone(2))."""
_TAKEN: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR})


def publish_once(path: StrPath, data: bytes, *, sync_directory: bool = True) -> bool:
    """Make `data` visible at `path`: whole, on disk, and at most once.

    Safe against any number of processes on any number of machines; the first one wins. Needs hard
    links, for which `open_root` probes. Costs 2 fsyncs (1 without the directory) and 1 link.

    Args:
        sync_directory: False leaves the *name* to a later sync of the directory, for a file whose
            loss with the power costs nothing.

    Returns:
        True if this call published `data`; False if something was already published there.
        Either way what is there has reached the disk, so the caller may acknowledge its message.

    Raises:
        FileNotFoundError: the directory is not there (any more). Nothing is created for it.
        OSError: the disk is full, for example; nothing is under the final name then, unless only
            the sync of the directory failed.
    """
    temp = _write_temp(os.path.dirname(path), (data,))
    try:
        os.link(temp, path)
        won = True
    except FileExistsError:
        # NFS repeats a link() whose reply was lost and then reports the first one's success as
        # EEXIST. A link count of 2 says that the existing file is ours (open(2), O_EXCL).
        won = os.stat(temp).st_nlink == 2
    except OSError:
        _discard(temp)
        raise
    os.unlink(temp)
    if sync_directory:
        _sync(os.path.dirname(path))
    return won


def add_name(path: StrPath, new: StrPath) -> bool:
    """Give a file one more name; False if something has that name. Durable after a sync of its parent.

    NFS says False, too, when it repeats a link whose reply was lost, so look whose it is.

    Raises:
        FileNotFoundError: the file is gone, or the directory of the new name is.
    """
    try:
        os.link(path, new)
    except FileExistsError:
        return False
    return True


def replace(path: StrPath, data: bytes, *, sync_directory: bool = True) -> None:
    """Put `data` at `path`, whole, in place of what was there. 2 fsyncs, 1 rename."""
    replace_stream(path, (data,), sync_directory=sync_directory)


def replace_stream(
    path: StrPath,
    chunks: Iterable[bytes],
    *,
    sync_directory: bool = True,
    is_current: Callable[[], bool] = lambda: True,
) -> None:
    """Do the same with bytes that need never be in memory at once.

    Whatever `chunks` raises goes through, and the old file stays.

    Args:
        is_current: is asked last, when all bytes are on disk: whether what is to be replaced is
            still what these bytes were made of.

    Raises:
        FileNotFoundError: it is not, or the directory is gone.
    """
    temp = _write_temp(os.path.dirname(path), chunks)
    try:
        if not is_current():
            raise FileNotFoundError(path)
        os.replace(temp, path)
    except OSError:
        _discard(temp)
        raise
    if sync_directory:
        _sync(os.path.dirname(path))


def create(path: StrPath, data: bytes) -> bool:
    """Create a small file under its final name with one write; False if the name is taken.

    Not durable, and a reader that comes between the two calls sees it empty: only for marks,
    whose existence says it all and whose readers expect both.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
    return True


def write_new(path: StrPath, chunks: Iterable[bytes]) -> None:
    """Write a file of an execution's own, in a directory that no record names yet, and sync it.

    Raises:
        FileExistsError: somebody has that name; two executions never share a file.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        _write_all(fd, chunks)
        os.fsync(fd)
    finally:
        os.close(fd)


def copy_new(source: int, path: StrPath) -> None:
    """Copy an open file to a new one and sync it. Never a link: both may change without the other.

    The blocks are shared where the file system can do that; whatever keeps it from it, the bytes
    are copied, and what is really wrong with the disk is said by that.

    Raises:
        FileExistsError: somebody has that name.
        OSError: the disk is full, among other things.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        if not _shared(source, fd):
            _write_all(fd, iter(lambda: os.read(source, _CHUNK), b""))
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: StrPath, *, sync_parent: bool = False) -> bool:
    """Create one directory, never its parents; False if it is there already.

    Raises:
        FileNotFoundError: the parent is not there; below `details/<state>` this means that the
            task was filed meanwhile.
    """
    try:
        os.mkdir(path)
        made = True
    except FileExistsError:
        made = False
    if sync_parent:
        _sync(os.path.dirname(path))
    return made


def move(source: StrPath, target: StrPath) -> bool:
    """Rename a file or directory; durable after a sync of the target's parent.

    Returns:
        False if the source is gone or the target is a directory with content: somebody else moved
        it. NFS says the same when it repeats a rename whose reply was lost, so look where it is.
    """
    try:
        os.rename(source, target)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def remove(path: StrPath) -> bool:
    """Unlink one file (a probe, a leftover); False if it is gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_directory(path: StrPath) -> bool:
    """Remove a directory if it is empty; False if it is not, or is gone."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def remove_tree(path: StrPath) -> None:
    """Remove a folder of our own with all that is in it, and nothing that a link in it leads to."""
    with os.scandir(path) as entries:
        found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for each, is_directory in found:
        if is_directory:
            remove_tree(each)
        else:
            remove(each)
    remove_directory(path)


def sync_directory(path: StrPath) -> None:
    """Make a directory's entries durable; a rename, link or mkdir is not on disk before this."""
    _sync(path)


@contextmanager
def lock(path: StrPath) -> Iterator[bool]:
    """Hold the operating system's exclusive lock on a file; yields False if somebody else does.

    The lock ends with the process, however that ends; the empty file stays.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _shared(source: int, target: int) -> bool:
    """Let a new file share the blocks of another, copied on the first write to either."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _write_temp(directory: str, chunks: Iterable[bytes]) -> str:
    """Write a new file beside the target and do not return before it is on disk."""
    temp = f"{directory}/{TEMP_PREFIX}{token_hex(16)}"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        _write_all(fd, chunks)
        os.fsync(fd)
    except Exception:
        # A full disk must not fill up with our half-written attempts at writing to it.
        _discard(temp)
        raise
    finally:
        os.close(fd)
    return temp


def _write_all(fd: int, chunks: Iterable[bytes]) -> None:
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            view = view[os.write(fd, view) :]


def _discard(temp: str) -> None:
    with suppress(OSError):
        os.unlink(temp)


def _sync(directory: StrPath) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
