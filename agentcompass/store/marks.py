"""Start marks and kill notes: who began an attempt, and which ends are known.

One small file per execution, `started-<token>.json`, made with one write and no sync: it tells
the living about the dead of this machine and others; what the power takes with it, it takes with
the execution. A known end renames it to `closed-<token>.<reason>.json`. A mark whose token is the
published result's is closed by that result, and one with a kill note by the note.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from agentcompass.models.base import Timestamp
from agentcompass.store import atomic, disk, layout

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StartMark:
    """That one execution of an attempt began."""

    token: str
    worker: str
    leg: int
    at: Timestamp
    alone: bool = False
    """It was executed in a process of its own, because an earlier mark was open."""
    closed: str | None = None
    """How it ended: `handed_back`, `cancelled`, a kill note's reason, …; None = open."""


@dataclass(frozen=True, slots=True)
class KillNote:
    """Why a keeper killed an execution; the next one publishes that instead of executing."""

    token: str
    reason: str
    message: str
    leg: int
    """Of the execution that was killed; 0 if its mark is not readable."""


@dataclass(frozen=True, slots=True)
class Marks:
    """All that the marks of one attempt say."""

    marks: tuple[StartMark, ...]
    """In the order of their beginnings."""
    kill_note: KillNote | None
    """The latest one."""


def put(attempt_dir: str, mark: StartMark) -> None:
    """Make the start mark; the second one of a token says nothing new.

    Raises:
        FileNotFoundError: the attempt's directory was moved meanwhile.
    """
    fields = {"token": mark.token, "worker": mark.worker, "leg": mark.leg, "at": mark.at}
    data = orjson.dumps({**fields, "alone": mark.alone})
    atomic.create(f"{attempt_dir}/{layout.started_name(mark.token)}", data)


def close(attempt_dir: Path, token: str, reason: str) -> None:
    """Say how an execution ended. Nothing happens if its mark is closed, gone or was moved."""
    started = attempt_dir / layout.started_name(token)
    atomic.move(started, attempt_dir / layout.closed_name(token, reason))


def leave_kill_note(attempt_dir: Path, token: str, reason: str, message: str) -> None:
    """Write why an execution is about to be killed, whole before this returns.

    If the directory is gone, the attempt was published and its task filed: no note is needed.
    """
    data = orjson.dumps({"token": token, "reason": reason, "message": message})
    try:
        path = attempt_dir / layout.killed_name(token)
        atomic.replace(path, data, sync_directory=False)
    except FileNotFoundError:
        return


def read(attempt_dir: str, names: Iterable[str], *, without: str = "") -> Marks:
    """Read the marks among the names in an attempt's directory, but for the one of `without`.

    A mark that cannot be read was cut short by the power or is just being written: it is open, of
    no leg and of nobody, so it asks for caution and condemns nothing.
    """
    found = [(name, layout.mark_of(name)) for name in names]
    ours = [(name, mark) for name, mark in found if mark is not None and mark[1] != without]
    notes = _notes(attempt_dir, [name for name, mark in ours if mark[0] == "killed"])
    marks = [
        _mark(attempt_dir, name, token, reason or notes.get(token, {}).get("reason"))
        for name, (kind, token, reason) in ours
        if kind != "killed"
    ]
    marks.sort(key=lambda mark: (mark.at, mark.token))
    return Marks(tuple(marks), _latest(notes, marks))


def _mark(attempt_dir: str, name: str, token: str, closed: str | None) -> StartMark:
    fields = _fields(attempt_dir, name)
    try:
        return StartMark(
            token=token,
            worker=str(fields["worker"]),
            leg=int(str(fields["leg"])),
            at=_aware(str(fields["at"])),
            alone=fields["alone"] is True,
            closed=closed,
        )
    except (KeyError, ValueError):
        return StartMark(token, "", 0, _LONG_AGO, alone=False, closed=closed)


def _aware(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:  # it could not be compared with ours
        raise ValueError(f"{text} has no offset")
    return found


def _notes(attempt_dir: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the readable kill notes by token, in the order in which they were written."""
    timed = []
    for name in names:
        fields = _fields(attempt_dir, name)
        if "reason" in fields and "token" in fields:
            written_at = os.lstat(f"{attempt_dir}/{name}").st_mtime_ns
            timed.append((written_at, {key: str(value) for key, value in fields.items()}))
    timed.sort(key=lambda item: item[0])
    return {fields["token"]: fields for _, fields in timed}


def _latest(notes: dict[str, dict[str, str]], marks: Sequence[StartMark]) -> KillNote | None:
    if not notes:
        return None
    token, fields = list(notes.items())[-1]
    leg = next((mark.leg for mark in marks if mark.token == token), 0)
    return KillNote(token, fields["reason"], fields.get("message", ""), leg)


def _fields(attempt_dir: str, name: str) -> dict[str, object]:
    try:
        value = orjson.loads(disk.read(f"{attempt_dir}/{name}"))
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
