"""The private directory of one worker instance, on this machine's own disk.

Holds the slips of its executions and their working areas. A lock in it, held by the worker's main
process, tells the living from the dead; the next worker that starts clears up after the dead.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agentcompass.errors import UsageError
from workers.keeping.locks import locked, try_lock

_LOCK: Final = ".lock"
_ALIVE: Final = "alive"
_REFUSAL: Final = "refusal"
_CLOSED: Final = "closed"
_PROVEN: Final = "proven"


@dataclass(frozen=True, slots=True)
class Instance:
    """One worker process tree; private (0700)."""

    path: Path
    lock: int = field(repr=False, compare=False)
    """Descriptor that holds the lock."""

    @property
    def slips(self) -> Path:
        """One small file per running execution."""
        return self.path / "slips"

    @property
    def work(self) -> Path:
        """Working areas of executions."""
        return self.path / "work"

    def clear_work_of(self, token: str) -> None:
        """Remove the working areas of an execution whose process died."""
        for path in self.work.glob(f"{token}.*"):
            shutil.rmtree(path, ignore_errors=True)

    def refuse(self, why: str) -> None:
        """Tell the main process that this worker can do none of its kind; the first one is heard."""
        try:
            with self.path.joinpath(_REFUSAL).open("x") as file:
                file.write(why)
        except FileExistsError:
            return

    def refused(self) -> str:
        """Return why this worker refuses, or "" while it does not."""
        try:
            return self.path.joinpath(_REFUSAL).read_text()
        except FileNotFoundError:
            return ""

    def prove(self, root: str) -> None:
        """Note that this worker has brought an attempt of its results folder to its end."""
        fresh = self.path / f"{_PROVEN}.{os.getpid()}.{threading.get_ident()}"
        fresh.write_text(root)
        fresh.rename(self.path / _PROVEN)  # a sibling that reads meanwhile must not find it empty

    def proven_root(self) -> str:
        """Return the digest of that folder; "" if it has never ended an attempt."""
        try:
            return self.path.joinpath(_PROVEN).read_text()
        except FileNotFoundError:
            return ""

    def close(self) -> None:
        """Tell the executions that this worker takes no more messages."""
        self.path.joinpath(_CLOSED).touch()

    def is_closed(self) -> bool:
        """Return whether this worker has stopped taking messages."""
        return self.path.joinpath(_CLOSED).exists()


def default_base() -> Path:
    """Return the folder of all instances of this user on this machine."""
    return Path(tempfile.gettempdir()) / f"agentcompass-{os.getuid()}"


def private_directory(path: Path) -> Path:
    """Make a directory that only we can enter; UsageError if it is somebody else's."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"no private folder at {path}: {error.strerror}",
            hint="give --work-dir a folder of your own on this machine's disk",
        ) from error
    found = path.lstat()
    if path.is_symlink() or found.st_uid != os.getuid():
        raise UsageError(
            f"{path} belongs to somebody else", hint="give --work-dir a folder of your own"
        )
    if found.st_mode & 0o077:
        path.chmod(0o700)
    return path


def open_instance(base: Path, name: str) -> Instance:
    """Make and lock the directory of a new instance below `base`."""
    safe = "".join(c if c.isalnum() else "-" for c in name)[:40]
    # Between its making and its locking it looks like a dead one.
    with locked(private_directory(base) / _LOCK):
        path = Path(tempfile.mkdtemp(prefix=f"worker-{safe}-", dir=base))
        lock = _locked(path)
    if lock is None:
        raise RuntimeError(f"{path} is locked by a process that does not know it")
    os.write(lock, str(os.getpid()).encode("ascii"))
    instance = Instance(path, lock)
    for directory in (instance.slips, instance.work):
        directory.mkdir(mode=0o700)
    return instance


def dead_instances(base: Path) -> Sequence[Instance]:
    """Return the instances below `base` whose process is gone, locked for us."""
    if not base.is_dir():
        return ()
    with locked(base / _LOCK):
        locks = [(path, _locked(path)) for path in sorted(base.glob("worker-*"))]
    return [Instance(path, lock) for path, lock in locks if lock is not None]


def has_instance(base: Path, pids: Collection[int]) -> bool:
    """Return whether one of these main processes, alive or dead, still has its directory."""
    return any(_owner(path) in pids for path in base.glob("worker-*"))


def close_instance(instance: Instance) -> None:
    """Let go of the lock; whoever removes the directory has done so before."""
    os.close(instance.lock)


def _owner(path: Path) -> int:
    try:
        return int(path.joinpath(_ALIVE).read_text("ascii") or 0)
    except OSError:
        return 0


def _locked(path: Path) -> int | None:
    try:
        return try_lock(path / _ALIVE)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # somebody else clears it up this very moment
