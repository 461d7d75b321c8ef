"""Collects the files that a task declares into the run directory."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import BaseModel

from agentcompass.environments.base import Environment, remove_tree
from agentcompass.errors import EnvironmentFailed
from agentcompass.models.checkpoint import ArtifactEntry, ArtifactManifest
from agentcompass.models.task import ArtifactRequest
from agentcompass.runtime.calling.calls import call
from agentcompass.runtime.calling.interrupts import Limit, Stopped
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.runtime.execution.failures import (
    Failure,
    failure_of,
    safe_text,
)
from agentcompass.runtime.execution.handles import BlockingHandle
from agentcompass.runtime.issues import issue
from agentcompass.store import attempts
from agentcompass.store.names import safe_component

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""No retry of the agent makes room on the results folder."""


@dataclass(frozen=True, slots=True)
class CollectedFiles:
    """What was collected, and what went wrong."""

    manifest: ArtifactManifest
    failures: tuple[Failure, ...] = ()


def collected_artifacts(
    attempt: Attempt, environment: Environment[BaseModel], limit: Limit, retry: int
) -> CollectedFiles:
    """Copy every declared file or folder: out of the environment, then into the run directory.

    A missing file of a task that requires it is an ERROR: the agent did not do its work, which
    the evaluation may still judge. A transfer that breaks is FATAL.
    """
    if not attempt.spec.artifacts:
        return CollectedFiles(ArtifactManifest())
    staging = attempt.folder(f"collected-{retry}")
    entries: list[ArtifactEntry] = []
    failures: list[Failure] = []
    target, directory = Path(), ""
    for number, request in enumerate(attempt.spec.artifacts, start=1):
        name = f"{number}-{safe_component(PurePosixPath(request.path).name or 'artifact')[:80]}"
        entry, failure = _fetched(environment, request, staging / name, limit)
        if failure is None and entry.status == "collected":
            try:
                if not directory:
                    target, directory = attempts.artifacts_directory(attempt.view)
                entry = _stored(attempt, entry, staging / name, target, limit)
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - also a deadline; the entry says "failed"
                entry, failure = _broken(entry, error)
        entries.append(entry)
        failures += [failure] if failure is not None else []
    remove_tree(staging)
    complete = all(failure.issue.severity != "fatal" for failure in failures)
    manifest = ArtifactManifest(directory=directory, complete=complete, entries=tuple(entries))
    return CollectedFiles(manifest, tuple(failures))


def _fetched(
    environment: Environment[BaseModel], request: ArtifactRequest, copy: Path, limit: Limit
) -> tuple[ArtifactEntry, Failure | None]:
    entry = ArtifactEntry(
        source=request.path, destination=copy.name, kind="file", status="collected"
    )
    try:
        call(limit, _fetch(environment, request, copy, limit))
    except Stopped:
        raise
    except BaseException as error:  # noqa: BLE001 - also a deadline; the entry says "failed"
        return _not_fetched(entry, request, error)
    return entry, None


def _not_fetched(
    entry: ArtifactEntry, request: ArtifactRequest, error: BaseException
) -> tuple[ArtifactEntry, Failure | None]:
    cause = error.__cause__ if isinstance(error, EnvironmentFailed) else error
    if isinstance(cause, FileNotFoundError):
        text = f"the required artifact {request.path!r} is missing"
        missing = Failure(issue("error", "collect", "artifact_missing", text))
        found = entry.model_copy(update={"status": "missing"})
        return found, missing if request.required else None
    if isinstance(cause, PermissionError) and not request.required:
        # What the agent left unreadable must not cost the work that it finished.
        text = f"artifact {request.path!r} cannot be read: {safe_text(cause)}"
        unreadable = Failure(issue("warning", "collect", "artifact_unreadable", text))
        return entry.model_copy(update={"status": "failed"}), unreadable
    return _broken(entry, error)


def _fetch(
    environment: Environment[BaseModel], request: ArtifactRequest, copy: Path, limit: Limit
) -> Callable[[], None]:
    def fetch() -> None:
        handle = BlockingHandle(environment, limit)
        if request.command is not None:
            made = handle.exec(request.command)
            if made.exit_code != 0:
                tail = made.stderr.strip()[-500:]
                raise RuntimeError(f"the command for {request.path!r} failed: {tail}")
        handle.download(request.path, copy)

    return fetch


def _stored(
    attempt: Attempt, entry: ArtifactEntry, copy: Path, target: Path, limit: Limit
) -> ArtifactEntry:
    """Copy a file or folder into the run directory, text without live secrets in it."""
    limit.check()
    mask = attempt.secrets.filter_chunks if attempt.secrets else None
    stored = attempts.collect_tree(copy, target / entry.destination, chunk_filter=mask)
    return stored.entry(entry.source, entry.destination)


def _broken(entry: ArtifactEntry, error: BaseException) -> tuple[ArtifactEntry, Failure]:
    found = failure_of(error, "collect")
    text = f"artifact {entry.source!r}: {found.issue.message}"
    cause = error.__cause__ or error
    failure = Failure(
        issue(found.issue.severity, found.issue.phase, found.issue.code, text),
        found.diagnostics,
        is_permanent=isinstance(cause, OSError) and cause.errno in _NO_ROOM,
    )
    return entry.model_copy(update={"status": "failed"}), failure
