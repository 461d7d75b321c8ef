"""`retries/`: what discarded tries, dead and losing executions left. Kept, and never counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import orjson

from agentcompass.errors import AgentCompassError
from agentcompass.models.result import AttemptResult
from agentcompass.store import atomic, disk, layout, results
from agentcompass.store.views import AttemptView, until_it_stays, where


def keep(attempt_dir: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Make `retries/<name>/` with these files and return it. Safe to repeat; not synced.

    Evidence that the power takes is evidence lost, nothing else; syncing it would cost each retry
    as much as a result.
    """
    retries = attempt_dir / layout.RETRIES
    atomic.make_directory(retries)
    target = retries / name
    atomic.make_directory(target)
    for filename, data in files.items():
        atomic.replace(target / filename, data, sync_directory=False)
    return target


def discarded(attempt_dir: str | Path) -> Iterator[results.ResultHead]:
    """Yield what was executed by this run and does not count: tries, losers, results of older legs.

    What cannot be read is passed over, and what reuse brought along was executed elsewhere. If the
    task is moved meanwhile, this is not all: whoever adds up looks again where it stands then.
    """
    retries = f"{attempt_dir}/{layout.RETRIES}"
    if not disk.is_directory(retries):
        return
    for folder in sorted(disk.directories(retries)):
        yield from _results_in(f"{retries}/{folder}")
        for inner in sorted(disk.directories(f"{retries}/{folder}")):
            if inner.startswith(layout.RETRY):  # of a leg
                yield from _results_in(f"{retries}/{folder}/{inner}")


def _results_in(folder: str) -> Iterator[results.ResultHead]:
    try:
        names = sorted(disk.names(folder))
    except FileNotFoundError:
        return
    for name in names:
        if not layout.is_result_name(name):
            continue
        try:
            head = results.load_outcome(f"{folder}/{name}")
        except (AgentCompassError, FileNotFoundError):
            continue
        if not head.reused_from:
            yield head


def move_outputs(attempt_dir: Path, token: str, target: Path) -> None:
    """Move the artifacts of one execution, and the checkpoint if it is its own, into `target`.

    Artifacts that are named by the result, or by the checkpoint of another execution that continues
    this one's work, stay where they are. An execution that was thought dead may publish at any
    moment: we look again after moving and it looks after publishing (`bring_back`), so whoever
    comes second sees the other.

    Raises:
        FileNotFoundError: the task was moved meanwhile; do it again where it is now.
    """
    if checkpoint_token(attempt_dir) == token:
        atomic.move(attempt_dir / layout.CHECKPOINT, target / layout.CHECKPOINT)
    artifacts, aside = attempt_dir / layout.ARTIFACTS / token, target / layout.ARTIFACTS
    if disk.is_directory(artifacts) and not _is_named(attempt_dir, token):
        atomic.move(artifacts, aside)
    if disk.is_directory(aside) and _names(attempt_dir / layout.RESULT, token):
        atomic.move(aside, artifacts)
    if not disk.is_directory(attempt_dir):
        raise FileNotFoundError(attempt_dir)


def bring_back(attempt_dir: Path, token: str) -> None:
    """Give a result that was just published its artifacts again, if they were put aside meanwhile."""
    aside = attempt_dir / layout.RETRIES / f"execution-{token}" / layout.ARTIFACTS
    if disk.is_directory(aside):
        atomic.move(aside, attempt_dir / layout.ARTIFACTS / token)


def _is_named(attempt_dir: Path, token: str) -> bool:
    """Return whether somebody needs these artifacts; nobody continues from a torn checkpoint."""
    if _names(attempt_dir / layout.RESULT, token):
        return True
    is_whole = checkpoint_token(attempt_dir) is not None
    return is_whole and _names(attempt_dir / layout.CHECKPOINT, token)


def _names(record: Path, token: str) -> bool:
    with suppress(FileNotFoundError):
        return f"/{layout.ARTIFACTS}/{token}".encode() in disk.read(record)
    return False


def checkpoint_token(attempt_dir: Path) -> str | None:
    """Return whose checkpoint this is; None if there is none or it cannot be read."""
    try:
        value = orjson.loads(disk.read(attempt_dir / layout.CHECKPOINT))
        return str(value["scheduler"]["token"])
    except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
        return None


def keep_retry(
    view: AttemptView, retry: int, result: AttemptResult, *, with_outputs: bool = True
) -> Path:
    """Put a discarded try aside and return where: `retries/retry-<retry>/`.

    Args:
        retry: from 1, without a gap; these directories alone make `retry_count`.
        with_outputs: also move the execution's snapshot and artifacts there. False if only the
            evaluation is repeated, which still needs them.
    """
    data = results.to_bytes(result)

    def once() -> Path:
        directory = where(view)
        target = keep(directory, f"{layout.RETRY}{retry}", {layout.RESULT: data})
        if with_outputs:
            move_outputs(directory, view.token, target)
        return target

    return until_it_stays(view.run_dir, once)


def keep_execution(view: AttemptView, token: str) -> Path:
    """Put aside what a dead or losing execution left: `retries/execution-<token>/`. Never counted.

    Its artifacts, and its checkpoint unless that is the one that a result or a continuation needs:
    call this only when its snapshot is not (or no longer) to be resumed from.
    """

    def once() -> Path:
        directory = where(view)
        target = keep(directory, f"execution-{token}", {})
        move_outputs(directory, token, target)
        return target

    return until_it_stays(view.run_dir, once)


def keep_unfinished(view: AttemptView, token: str) -> None:
    """Do the same, unless the execution's agent has finished: whoever took over continues from there."""

    def once() -> None:
        if checkpoint_token(where(view)) != token:
            keep_execution(view, token)

    until_it_stays(view.run_dir, once)


def artifacts_directory(view: AttemptView) -> tuple[Path, str]:
    """Make this execution's artifact directory; return it and its run-relative name for manifests."""

    def once() -> tuple[Path, str]:
        directory = where(view)
        atomic.make_directory(directory / layout.ARTIFACTS)
        own = directory / layout.ARTIFACTS / view.token
        atomic.make_directory(own)
        return own, own.relative_to(view.run_dir).as_posix()

    return until_it_stays(view.run_dir, once)
