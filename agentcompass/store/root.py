"""The results folder that coordinators and workers share, and references to runs below it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from agentcompass.errors import ResultsDirUnusable, UsageError
from agentcompass.models.message import MAX_RUN_REF_BYTES
from agentcompass.store import atomic
from agentcompass.store.layout import ROOT_FILE

_ROOT_ID: Final = re.compile(r"[0-9a-f]{32}\n?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResultsRoot:
    """A results folder and who it is, wherever it is mounted."""

    path: Path
    root_id: str
    """32 hex digits, made once, in `.agentcompass-root`."""

    @property
    def digest(self) -> str:
        """The first 8 digits; what a message carries."""
        return self.root_id[:8]


def refuse_unusable(path: Path) -> None:
    """Refuse what `open_root` would refuse, as far as that can be told without writing anything.

    Raises:
        ResultsDirUnusable: it is no folder, cannot be made, or nothing can be written in it.
    """
    if path.exists() and not path.is_dir():
        raise ResultsDirUnusable(path, "it is not a directory")
    if not path.exists() and not path.parent.is_dir():
        raise ResultsDirUnusable(path, f"its parent {path.parent} does not exist")
    place = path if path.exists() else path.parent
    if not os.access(place, os.W_OK | os.X_OK):
        raise ResultsDirUnusable(path, f"nothing can be written in {place}")


def open_root(path: Path) -> ResultsRoot:
    """Make sure that a results folder is there and can do what publication needs.

    Only a coordinator calls this. The folder is created, but not its parents: an absent parent is
    more often a share that is not mounted than a wish.

    Raises:
        ResultsDirUnusable: before anything is reserved; names the operation that failed.
    """
    try:
        atomic.make_directory(path, sync_parent=False)
    except FileNotFoundError as error:
        reason = f"its parent {path.parent} does not exist"
        raise ResultsDirUnusable(path, reason) from error
    except OSError as error:
        raise ResultsDirUnusable(path, _why(error, "it cannot be created")) from error
    if not path.is_dir():
        raise ResultsDirUnusable(path, "it is not a directory")
    _probe(path)
    known = find_root(path)
    if known is not None:
        return known
    root = ResultsRoot(path, uuid4().hex)
    try:
        won = atomic.publish_once(path / ROOT_FILE, f"{root.root_id}\n".encode())
    except OSError as error:
        raise ResultsDirUnusable(path, _why(error, f"{ROOT_FILE} cannot be written")) from error
    return root if won else find_root(path) or root


def find_root(path: Path) -> ResultsRoot | None:
    """Return the results folder at `path`, or None if no coordinator has ever made one there.

    Workers call this; it creates nothing, so a share that is not mounted stays visibly absent.

    Raises:
        ResultsDirUnusable: the root file is there, but is not one.
    """
    try:
        text = (path / ROOT_FILE).read_bytes().decode("ascii", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ResultsDirUnusable(path, _why(error, f"{ROOT_FILE} cannot be read")) from error
    if _ROOT_ID.fullmatch(text) is None:
        raise ResultsDirUnusable(path, f"{ROOT_FILE} does not hold 32 hex digits")
    return ResultsRoot(path, text.strip())


def run_ref(root: ResultsRoot, run_dir: Path) -> str:
    """Return the path of a run below its results folder, with `/` between the levels.

    Raises:
        UsageError: the run is not below the folder, or its reference is longer than 160 bytes.
    """
    try:
        ref = run_dir.resolve().relative_to(root.path.resolve()).as_posix()
    except ValueError as error:
        raise UsageError(
            f"run {run_dir.name!r} is not below the results folder",
            where=str(run_dir),
            hint=f"give --results-dir the folder that holds it, not {root.path}",
        ) from error
    check_ref(ref)
    return ref


def resolve_ref(root: ResultsRoot, ref: str) -> Path:
    """Return the run directory that a reference names; it need not be there (yet).

    Raises:
        UsageError: the reference leaves the results folder, by `..` or by a symbolic link.
    """
    check_ref(ref)
    run_dir = root.path / ref
    if not run_dir.resolve().is_relative_to(root.path.resolve()):
        raise UsageError(f"run reference {ref!r} leaves the results folder", where=str(root.path))
    return run_dir


def check_ref(ref: str) -> None:
    """Raise UsageError unless `ref` is a relative path of at most 160 bytes without tricks."""
    parts = ref.split("/")
    if any(part in {"", ".", ".."} for part in parts) or "\\" in ref or "\0" in ref:
        raise UsageError(f"run reference {ref!r} is not a path below the results folder")
    if len(ref.encode("utf-8", "surrogatepass")) > MAX_RUN_REF_BYTES:
        raise UsageError(
            f"the run's path below the results folder has more than {MAX_RUN_REF_BYTES} bytes",
            where=f"{ref[:60]}…",
            hint="choose a shorter --run-name or --run-id",
        )


def _probe(path: Path) -> None:
    """Do once, in a directory of its own, everything that publication will do."""
    probe = path / f"{atomic.TEMP_PREFIX}probe-{uuid4().hex}"
    doing = "create a directory"
    try:
        atomic.make_directory(probe)
        doing = "write, fsync and hard-link a file"
        first, second, moved = probe / "a", probe / "b", probe / "c"
        atomic.publish_once(first, b"probe")
        if atomic.publish_once(first, b"other") or first.read_bytes() != b"probe":
            raise ResultsDirUnusable(path, "a second hard link replaced the first file")
        doing = "rename a file"
        atomic.replace(second, b"probe")
        atomic.move(second, moved)
        doing = "rename a directory"
        atomic.make_directory(probe / "d")
        atomic.move(probe / "d", probe / "e")
        doing = "fsync a directory"
        atomic.sync_directory(probe)
    except OSError as error:
        raise ResultsDirUnusable(path, _why(error, f"it is not possible to {doing}")) from error
    finally:
        _clean(probe)


def _clean(probe: Path) -> None:
    try:
        for entry in sorted(probe.iterdir()):
            atomic.remove_directory(entry) if entry.is_dir() else atomic.remove(entry)
        atomic.remove_directory(probe)
    except OSError:
        return  # the probe's own error is the one that matters; readers ignore `.tmp-*`


def _why(error: OSError, doing: str) -> str:
    return f"{doing} ({error.strerror or error})"
