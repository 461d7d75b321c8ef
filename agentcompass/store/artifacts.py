"""Files that an execution collected: copied as a stream, digested on the way, never through a link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

from agentcompass.errors import StoreError
from agentcompass.models.checkpoint import ArtifactEntry, ArtifactManifest
from agentcompass.store import atomic, disk, layout

_CHUNK: Final = 1 << 18
_MAX_SKIPPED: Final = 100
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

ChunkFilter: TypeAlias = Callable[[Iterator[bytes]], Iterator[bytes]]
"""Sees the bytes of one file before they are digested and stored; it masks secrets."""


@dataclass(frozen=True, slots=True)
class CollectLimits:
    """How much one collection may take; beyond it, it fails as a whole."""

    max_bytes: int = 16 << 30
    max_files: int = 100_000


class CollectLimitExceeded(Exception):
    """What is to be collected is larger than allowed; becomes the attempt's issue."""

    def __init__(self, path: str, limit: str) -> None:
        super().__init__(path, limit)
        self.path = path
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.path} exceeds the limit of {self.limit}"


class AttemptOver(StoreError):
    """The place of the artifacts was moved: another execution has ended this attempt."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is gone: another execution has ended this attempt"


@dataclass(frozen=True, slots=True)
class Collected:
    """One file or folder as it now stands among the artifacts."""

    kind: Literal["file", "directory"]
    size_bytes: int
    file_count: int
    sha256: str
    """Of a file: its content. Of a folder: `tree_digest`."""
    skipped: tuple[str, ...] = ()
    """Symbolic links, devices, sockets and pipes that were left out, at most 100 of them."""

    def entry(self, source: str, destination: str) -> ArtifactEntry:
        """Return the manifest's line about it."""
        return ArtifactEntry(
            source=source,
            destination=destination,
            kind=self.kind,
            status="collected",
            size_bytes=self.size_bytes,
            file_count=self.file_count,
            sha256=self.sha256,
        )


def collect_tree(
    source: Path,
    target: Path,
    *,
    limits: CollectLimits = CollectLimits(),
    chunk_filter: ChunkFilter | None = None,
) -> Collected:
    """Copy a file or folder to `target`, below an execution's own artifact directory.

    Every file is synced, so that a snapshot never names bytes that the power can take. Links and
    special files are left out, wherever they point; a link in place of `source` is refused.

    Raises:
        FileNotFoundError: there is no `source`.
        FileExistsError: `target` is taken.
        AttemptOver: the attempt's directory was moved meanwhile, so somebody else published it.
        CollectLimitExceeded: too large; what was copied so far stays, for `retries/`.
        OSError: it cannot be read; or the disk is full, and then nothing stays of the copy, so
            that there is room to say so.
    """
    found = os.lstat(source)
    collection = _Collection(limits, chunk_filter)
    try:
        if stat.S_ISDIR(found.st_mode):
            return collection.tree(source, target)
        if stat.S_ISREG(found.st_mode):
            return collection.file(source, target)
    except OSError as error:
        if error.errno in _FULL:
            _discard(target)
        raise
    raise FileNotFoundError(f"{source} is neither a file nor a folder")


def copy_tree(source: Path, target: Path) -> None:
    """Copy the regular files of a folder to a new one, synced, sharing blocks where that is possible.

    Links and special files are left out, as at collection.
    """
    atomic.make_directory(target)
    made = {target}
    for relative, path in walk(source, []):
        copy = target / relative
        for parent in reversed(copy.relative_to(target).parents[:-1]):
            if target / parent not in made:
                atomic.make_directory(target / parent)
                made.add(target / parent)
        fd = disk.open_to_read(path)
        try:
            atomic.copy_new(fd, copy)
        finally:
            os.close(fd)
    for directory in sorted(made, reverse=True):
        atomic.sync_directory(directory)


def digest_tree(path: Path) -> Collected:
    """Return what stands at `path`, with the digests that `collect_tree` would have given.

    Raises:
        FileNotFoundError: nothing is there, or something that is neither file nor folder.
    """
    if disk.is_file(path):
        size, digest = _digest_file(path)
        return Collected("file", size, 1, digest)
    if not disk.is_directory(path):
        raise FileNotFoundError(path)
    lines, total, skipped = [], 0, list[str]()
    for relative, each in walk(path, skipped):
        size, digest = _digest_file(each)
        lines.append((relative, digest))
        total += size
    return Collected("directory", total, len(lines), tree_digest(lines), tuple(skipped))


def tree_digest(files: list[tuple[str, str]]) -> str:
    """Return the digest of a folder from (relative path, SHA-256) of its regular files."""
    total = sha256()
    for relative, digest in sorted(files):
        total.update(f"{digest}  {relative}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def verify_artifacts(run_dir: Path, manifest: ArtifactManifest) -> list[str]:
    """Return what is wrong with the files of a manifest; empty if every checksum matches.

    The recorded directory is sought where its task stands now, and again if the task was moved
    while its files were digested. A destination that is an absolute path is a file outside of the
    run and is looked at there.
    """
    base = locate(run_dir, manifest.directory)
    problems = _problems(base, manifest)
    while problems and (now := locate(run_dir, manifest.directory)) != base:
        base = now
        problems = _problems(base, manifest)
    return problems


def _problems(base: Path | None, manifest: ArtifactManifest) -> list[str]:
    problems = [] if manifest.complete else ["the collection was not complete"]
    for entry in manifest.entries:
        if entry.status == "collected":
            problem = _problem(base, entry)
            if problem:
                problems.append(f"{entry.destination}: {problem}")
    return problems


def locate(run_dir: Path, recorded: str) -> Path | None:
    """Return where a run-relative artifact directory stands now; None if it is not a sane path."""
    parts = PurePosixPath(recorded).parts
    if not recorded or PurePosixPath(recorded).is_absolute() or ".." in parts:
        return None
    is_task = len(parts) > 2 and parts[0] == layout.DETAILS and parts[1] in layout.STATES
    found = disk.find(run_dir, parts[2]) if is_task else None
    if found is not None:
        recorded = layout.with_state(recorded, parts[2], found[0])
    return run_dir / recorded


def is_in_place(run_dir: Path, recorded: str) -> bool:
    """Return whether a run-relative artifact directory is there, wherever its task stands now."""
    found = locate(run_dir, recorded)
    return found is not None and disk.is_directory(found)


def _problem(base: Path | None, entry: ArtifactEntry) -> str:
    destination = PurePosixPath(entry.destination)
    if destination.is_absolute():
        path = Path(entry.destination)
    elif base is None or ".." in destination.parts:
        return "its path leaves the run"
    else:
        path = base / destination
    try:
        found = digest_tree(path)
    except OSError as error:
        return f"cannot be read ({error.strerror or 'it is not there'})"
    if found.sha256 != entry.sha256 or found.kind != entry.kind:
        return "its checksum differs"
    return ""


class _Collection:
    """One call of `collect_tree`: what it has taken so far, against its limits."""

    def __init__(self, limits: CollectLimits, chunk_filter: ChunkFilter | None) -> None:
        self._limits = limits
        self._filter = chunk_filter
        self._bytes = 0
        self._files = 0

    def file(self, source: Path, target: Path) -> Collected:
        size, digest = self._copy(source, target)
        return Collected("file", size, 1, digest)

    def tree(self, source: Path, target: Path) -> Collected:
        _make(target)
        lines, skipped, made = [], list[str](), {target}
        for relative, path in walk(source, skipped):
            copy = target / relative
            for parent in reversed(copy.relative_to(target).parents[:-1]):
                if target / parent not in made:
                    _make(target / parent)
                    made.add(target / parent)
            lines.append((relative, self._copy(path, copy)[1]))
        for directory in sorted(made, reverse=True):
            atomic.sync_directory(directory)
        return Collected("directory", self._bytes, self._files, tree_digest(lines), tuple(skipped))

    def _copy(self, source: Path, target: Path) -> tuple[int, str]:
        self._files += 1
        if self._files > self._limits.max_files:
            raise CollectLimitExceeded(str(source), f"{self._limits.max_files} files")
        digest, size = sha256(), 0
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            chunks = self._limited(fd, source)
            filtered = self._filter(chunks) if self._filter is not None else chunks

            def digested() -> Iterator[bytes]:
                nonlocal size
                for chunk in filtered:
                    digest.update(chunk)
                    size += len(chunk)
                    yield chunk

            atomic.write_new(target, digested())
        except FileNotFoundError as error:
            raise AttemptOver(target.parent) from error
        finally:
            os.close(fd)
        return size, digest.hexdigest()

    def _limited(self, fd: int, source: Path) -> Iterator[bytes]:
        """Read to the end; a file that grows while it is read is stopped by the limit."""
        while chunk := os.read(fd, _CHUNK):
            self._bytes += len(chunk)
            if self._bytes > self._limits.max_bytes:
                raise CollectLimitExceeded(str(source), f"{self._limits.max_bytes} bytes")
            yield chunk


def _make(directory: Path) -> None:
    try:
        if not atomic.make_directory(directory):
            raise FileExistsError(directory)
    except FileNotFoundError as error:
        raise AttemptOver(directory.parent) from error


def walk(root: Path, skipped: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield (relative path, path) of the regular files below `root`, sorted within each folder.

    Args:
        skipped: gets the names of links and special files, at most 100.
    """
    waiting = [(root, "")]
    while waiting:
        directory, prefix = waiting.pop()
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            relative = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append((directory / entry.name, f"{relative}/"))
            elif entry.is_file(follow_symlinks=False):
                yield relative, directory / entry.name
            elif len(skipped) < _MAX_SKIPPED:
                skipped.append(relative)


def _discard(target: Path) -> None:
    if not disk.is_directory(target):
        atomic.remove(target)
        return
    for name in disk.names(target):
        _discard(target / name)
    atomic.remove_directory(target)


def _digest_file(path: Path) -> tuple[int, str]:
    digest, size = sha256(), 0
    fd = disk.open_to_read(path)
    try:
        while chunk := os.read(fd, _CHUNK):
            digest.update(chunk)
            size += len(chunk)
    finally:
        os.close(fd)
    return size, digest.hexdigest()
