"""Slips: what a running execution tells whoever watches over it, as one small local file.

The first line never changes; the second, of fixed length, holds the hard deadline and is written
over at every phase. The deadline stands at both ends of it: of a line that is half old and half new
they differ. A reader that meets a half-written slip skips it until the next tick. A file is used
again for the next execution of its process and has the name of the first one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from agentcompass.runtime.ports import KillReason, StopReason

_STOP: Final = ".stop"
_LINE: Final = b"%-20s %-20s %-20s\n"
_NONE: Final = b"-"
_NO_DEADLINE: Final = _LINE % (_NONE, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class Slip:
    """One running execution."""

    token: str
    lease: str
    """Redis key of its lease."""
    holder: str
    """Value of that key, to claim it again."""
    task_id: str
    attempt: int
    leg: int
    run_dir: str
    attempt_dir: str
    owner: int
    """The process that delivers; it understands a request to stop."""
    owner_started: int | None
    pid: int
    """The process that executes; to kill it ends the execution. Often the owner."""
    pid_started: int | None


@dataclass(frozen=True, slots=True)
class Deadline:
    """A hard deadline: `time.monotonic()` is the same in all processes of a machine."""

    at_s: float
    reason: KillReason


@dataclass(frozen=True, slots=True)
class Sheet:
    """An open file for one slip after the other of this process, empty in between.

    A file per execution would be made and removed hundreds of times a second, which some file
    systems punish: a new file is looked for among all that were removed in the last minutes.
    """

    descriptor: int
    owner: int


class OpenSlip:
    """The slip of an execution of this process; implements `agentcompass.runtime.ports.Watch`."""

    __slots__ = ("_blank", "_offset", "_sheet")

    def __init__(self, directory: Path, slip: Slip, blank: list[Sheet] | None = None) -> None:
        """Write a slip, on a blank sheet if there is one.

        Args:
            blank: takes the sheet when the execution has ended.
        """
        # By hand: `asdict` costs as much as the rest of this together, and it is once per attempt.
        first = json.dumps({name: getattr(slip, name) for name in slip.__slots__}).encode() + b"\n"
        self._offset = len(first)
        self._blank = [] if blank is None else blank
        self._sheet = _sheet(directory, slip.token, self._blank)
        os.pwrite(self._sheet.descriptor, first + _NO_DEADLINE, 0)

    def until(self, deadline_monotonic_s: float, reason: KillReason) -> None:
        """Replace the hard deadline."""
        at_s = b"%.6f" % deadline_monotonic_s
        os.pwrite(self._sheet.descriptor, _LINE % (at_s, reason.encode(), at_s), self._offset)

    def close(self) -> None:
        """Wipe the slip off its sheet; never raises."""
        try:
            os.ftruncate(self._sheet.descriptor, 0)
        except OSError:
            return  # the disk is gone: so is the worker
        self._blank.append(self._sheet)


def _sheet(directory: Path, name: str, blank: list[Sheet]) -> Sheet:
    owner = os.getpid()
    try:
        sheet = blank.pop()
    except IndexError:
        sheet = None
    if sheet is not None and sheet.owner == owner:
        return sheet
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return Sheet(os.open(f"{directory}/{name}", flags, 0o600), owner)


def read_all(directory: Path) -> Iterator[tuple[Slip, Deadline | None]]:
    """Yield every complete slip."""
    for path in _paths(directory):
        parsed = _parsed(path)
        if parsed is not None:
            yield parsed


def is_open(directory: Path, token: str) -> bool:
    """Return whether there is a slip of this execution."""
    return any(slip.token == token for slip, _ in read_all(directory))


def remove(directory: Path, token: str) -> None:
    """Remove the slip of a dead execution and the request to stop that may lie beside it."""
    for path in _paths(directory):
        found = _parsed(path)
        if found is not None and found[0].token == token:
            path.unlink(missing_ok=True)
    clear_stop(directory, token)


def leave_stop(directory: Path, token: str, reason: StopReason) -> None:
    """Write down why an execution shall end, for its process to read when it gets the signal."""
    directory.joinpath(token + _STOP).write_text(reason)


def clear_stop(directory: Path, token: str) -> None:
    """Remove a request that was obeyed."""
    directory.joinpath(token + _STOP).unlink(missing_ok=True)


def read_stop(directory: Path, token: str) -> StopReason | None:
    """Return why an execution shall end, or None."""
    try:
        text = directory.joinpath(token + _STOP).read_text()
    except OSError:
        return None
    return next((reason for reason in get_args(StopReason) if reason == text), None)


def _paths(directory: Path) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if path.suffix != _STOP]
    except FileNotFoundError:
        return []


def _parsed(path: Path) -> tuple[Slip, Deadline | None] | None:
    try:
        first, second = path.read_bytes().splitlines()
        return Slip(**json.loads(first)), _deadline(second)
    except (OSError, ValueError, TypeError):
        return None


def _deadline(line: bytes) -> Deadline | None:
    """Return what a second line says; ValueError if it is not whole."""
    at_s, reason, again = line.split()
    if at_s != again or len(line) != len(_NO_DEADLINE) - 1:
        raise ValueError(line)
    if at_s == _NONE:
        return None
    known = get_args(KillReason)
    return Deadline(float(at_s), known[known.index(reason.decode())])
