"""Files as tar streams into and out of a container; nothing is held in memory or on a disk twice.

What comes out was made by a hostile program: no link is ever created, so that nothing can be
written through one.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from agentcompass.environments.mounts import Mounts

_CHUNK: Final = 1 << 20
_BLOCK: Final = tarfile.BLOCKSIZE
_READ_BITS: Final = stat.S_IRUSR | stat.S_IWUSR


class IsLink(Exception):
    """What was asked for is itself a link; holds where it leads."""

    def __init__(self, leads_to: str) -> None:
        super().__init__(leads_to)
        self.leads_to = leads_to


def pack(source: Path, name: str, owner: tuple[int, int]) -> Iterator[bytes]:
    """Yield an archive of a file, called `name`, or of what is in a folder; links stay links."""
    if source.is_dir():
        places = [(path.name, path) for path in sorted(source.iterdir())]
    else:
        places = [(name, source.resolve())]
    while places:
        name, path = places.pop()
        yield from _packed(name, path, owner)
        if path.is_dir() and not path.is_symlink():
            places += [(f"{name}/{below.name}", below) for below in sorted(path.iterdir())]
    yield bytes(2 * _BLOCK)


def _packed(name: str, path: Path, owner: tuple[int, int]) -> Iterator[bytes]:
    found = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = stat.S_IMODE(found.st_mode), found.st_mtime
    entry.uid, entry.gid = owner
    if stat.S_ISDIR(found.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.fspath(path.readlink())
    elif stat.S_ISREG(found.st_mode):
        entry.size = found.st_size
    else:
        return  # a pipe, a socket, a device
    yield entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    if entry.size:
        yield from _content(path, entry.size)


def _content(path: Path, size: int) -> Iterator[bytes]:
    left = size
    with path.open("rb") as file:
        while left and (chunk := file.read(min(left, _CHUNK))):
            left -= len(chunk)
            yield chunk
    yield bytes(left + -size % _BLOCK)  # also if the file became shorter meanwhile


def unpack(chunks: Iterable[bytes], source: str, target: Path, limit_bytes: int) -> None:
    """Write an archive of one file or folder to a place that does not exist yet.

    Links to files within the folder become files; other links, pipes, sockets and devices are
    left out.

    Args:
        chunks: the archive, as an engine makes it.
        source: absolute path inside that it was made of.
        target: where the file or folder shall stand.
        limit_bytes: of all files together.

    Raises:
        IsLink: the source is a link; nothing was written.
        ValueError: it is no file, no folder, or the archive is not one of an engine.
        OSError: it is too large, or the disk is full.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    unpacking = _Unpacking(source, target, limit_bytes)
    with tarfile.open(fileobj=io.BufferedReader(_Reader(chunks)), mode="r|") as archive:
        for member in archive:
            unpacking.add(archive, member)
    unpacking.finish()


class _Unpacking:
    """One archive that is being written."""

    def __init__(self, source: str, target: Path, limit_bytes: int) -> None:
        self._source = PurePosixPath(source)
        self._target = target
        self._left = limit_bytes
        self._links: list[tuple[PurePosixPath, str]] = []
        """Path inside, and where it leads."""

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        below = self._below(member.name)
        place = self._target / below
        if member.isdir():
            place.mkdir(exist_ok=True)
        elif member.isreg():
            self._write(archive, member, place)
        elif member.islnk():
            self._copy(self._target / self._below(member.linkname), place)
        elif member.issym():
            if below == PurePosixPath():
                raise IsLink(member.linkname)
            self._links.append((self._source / below, member.linkname))
        elif below == PurePosixPath():
            raise ValueError(f"{str(self._source)!r} is neither a file nor a folder")

    def finish(self) -> None:
        """Replace links by what they lead to, also through one another."""
        mounts = Mounts({str(self._source): self._target})
        links, before = self._links, -1
        while len(links) != before:
            before = len(links)
            links = [each for each in links if not self._is_replaced(mounts, *each)]

    def _is_replaced(self, mounts: Mounts, link: PurePosixPath, leads_to: str) -> bool:
        try:
            found = mounts.find(str(link.parent), leads_to)
        except ValueError:
            return False
        if not found.is_file():
            return False
        self._copy(found, self._target / link.relative_to(self._source))
        return True

    def _below(self, name: str) -> PurePosixPath:
        """Return a member's path below the archive's own root, whose name does not matter."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"the archive holds {name!r}, which leads out of it")
        return PurePosixPath(*path.parts[1:])

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
        self._take(member.size)
        content = archive.extractfile(member)
        if content is None:
            raise ValueError(f"the archive's {member.name!r} has no content")
        with content, place.open("xb") as file:
            shutil.copyfileobj(content, file, _CHUNK)
            os.fchmod(file.fileno(), member.mode & 0o777 | _READ_BITS)

    def _copy(self, found: Path, place: Path) -> None:
        self._take(found.stat().st_size)
        with found.open("rb") as content, place.open("xb") as file:
            shutil.copyfileobj(content, file, _CHUNK)
            os.fchmod(file.fileno(), stat.S_IMODE(found.stat().st_mode))

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise OSError(errno.EFBIG, "larger than what may be downloaded", str(self._source))


class _Reader(io.RawIOBase):
    """Chunks as a file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # narrower
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def of_bytes(name: str, data: bytes, owner: tuple[int, int]) -> bytes:
    """Return an archive of one file that only its owner may read."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), stat.S_IRUSR | stat.S_IWUSR
    entry.uid, entry.gid = owner
    padding = bytes(-len(data) % _BLOCK + 2 * _BLOCK)
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape") + data + padding


def of_folder(name: str, mode: int, owner: tuple[int, int]) -> bytes:
    """Return an archive of one empty folder."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    entry.uid, entry.gid = owner
    return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape") + bytes(2 * _BLOCK)
