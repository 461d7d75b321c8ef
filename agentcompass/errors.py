"""Every error that this package raises on purpose, sorted by what the catcher does about it.

* AgentCompassError
  - UsageError          the user changes something; at most five lines, no traceback    exit 2
    · UnknownComponent, RunNotFound, RunExists, ResultsDirUnusable, BrokerUnreachable
  - StoreError          what is on disk cannot be relied on; nothing is touched         exit 2
    · RecordCorrupt, FormatUnknown, RunNotSealed
  - RunIncomplete       attempts are missing; `resume` goes on                          exit 3
* AttemptFailure        recorded as the attempt's issue; never leaves the attempt
  · PermanentFailure    the same, and no retry is made
* EnvironmentFailed     the same, classified by the step in which the environment failed

Anything else that escapes is a bug and keeps its traceback. Every class hands all its arguments
to `super().__init__`, so that it survives pickling, and builds its text in `__str__`.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # the command line reads this module before it may afford pydantic
    from agentcompass.models.issue import Phase, Severity


class AgentCompassError(Exception):
    """Base of the errors above; `str()` is what the user reads, at most five lines."""

    exit_code: ClassVar[int] = 2


class UsageError(AgentCompassError):
    """The user can fix this without reading our code: what, where, and what to do."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, where, hint)
        self.what = what
        self.where = where
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by fields: the constructor takes keywords, which `Exception` cannot replay."""
        return _rebuild, (type(self), dict(self.__dict__), self.args)

    def __str__(self) -> str:
        lines = [self.what, f"  where: {self.where}" if self.where else ""]
        lines.append(f"  do: {self.hint}" if self.hint else "")
        return "\n".join(line for line in lines if line)


def _rebuild(
    cls: type[AgentCompassError], fields: dict[str, object], args: tuple[object, ...]
) -> AgentCompassError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


class UnknownComponent(UsageError):
    """No plug-in has this id."""

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        guess = f"did you mean {near[0]!r}? " if near else ""
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"unknown {kind} {name!r}",
            where=f"--{kind}",
            hint=f"{guess}known: {listed}; or give package.module:Class or path/file.py:Class",
        )


class RunNotFound(UsageError):
    """There is no run where the user said that there is one."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"no run at {path}: it has no run_info.json",
            hint="a run without run_info.json never started; is the path one level off?",
        )


class RunExists(UsageError):
    """The explicit run id is taken (compared case-folded)."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"run {path.name!r} exists already",
            where=str(path),
            hint="choose another --run-id, leave it out, or go on with `agentcompass resume`",
        )


class ResultsDirUnusable(UsageError):
    """The results folder cannot do what publication needs."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"results folder cannot be used: {reason}",
            where=str(path),
            hint="give --results-dir a writable folder on a file system with rename, hard links and fsync",
        )


class BrokerUnreachable(UsageError):
    """No broker answers; the URL is already without its password."""

    def __init__(self, masked_url: str, reason: str) -> None:
        super().__init__(
            f"broker does not answer: {reason}",
            where=masked_url,
            hint="start it or correct --broker; without --broker a private one is started",
        )


class StoreError(AgentCompassError):
    """Stop: what is on disk is not what we rely on."""


class RecordCorrupt(StoreError):
    """Files that must be read and cannot; every one of them is listed."""

    def __init__(self, problems: Sequence[tuple[Path, str]]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        shown = [f"  {path}: {reason}" for path, reason in self.problems[:3]]
        if len(self.problems) > len(shown):
            shown.append(f"  and {len(self.problems) - len(shown)} more (agentcompass check)")
        count = len(self.problems)
        return "\n".join([f"{count} malformed record{'s' if count > 1 else ''}", *shown])


class FormatUnknown(StoreError):
    """A schema marker that this version does not know; probably written by a newer one."""

    def __init__(self, path: Path, found: str, known: Sequence[str]) -> None:
        super().__init__(path, found, tuple(known))
        self.path = path
        self.found = found
        self.known = tuple(known)

    def __str__(self) -> str:
        return (
            f"{self.path} has format {self.found!r}, which this version does not know\n"
            f"  known: {', '.join(self.known)}\n  do: read it with the version that wrote it"
        )


class RunNotSealed(StoreError):
    """The run was reserved, but its task list was never frozen: there is no work in it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is not sealed: it was interrupted while it was planned\n  do: agentcompass resume {self.path}"


class RunIncomplete(AgentCompassError):
    """Attempts have no terminal result."""

    exit_code = 3

    def __init__(self, path: Path, missing: int, total: int) -> None:
        super().__init__(path, missing, total)
        self.path = path
        self.missing = missing
        self.total = total

    def __str__(self) -> str:
        return (
            f"{self.missing} of {self.total} attempts have no result\n"
            f"  where: {self.path}\n  do: agentcompass resume {self.path}"
        )


class AttemptFailure(Exception):
    """A classified failure that a plug-in reports; it becomes an issue of its attempt.

    Args:
        severity: `fatal` means that the task cannot be scored in this run.
        code: snake_case; retry and the failure table look at it, never at the message.
        message: one line for people.
        partial: what the agent had produced, a `RunResult`; recorded and still evaluated after
            an ERROR.
        retry_after_s: the server's own wish; the next try waits at least that long.
    """

    def __init__(
        self,
        severity: Severity,
        phase: Phase,
        code: str,
        message: str,
        partial: object = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(severity, phase, code, message, partial, retry_after_s)
        self.severity: Severity = severity
        self.phase: Phase = phase
        self.code = code
        self.message = message
        self.partial = partial
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.severity} {self.phase} {self.code}: {self.message}"


class PermanentFailure(AttemptFailure):
    """A failure that no retry can cure (401 to 403, a missing secret), so that none is made."""


class EnvironmentFailed(Exception):
    """The environment, not the plug-in that used it, failed; `__cause__` says how.

    A harness that lets it pass may leave in `partial` what the agent had produced, as in
    `AttemptFailure`.
    """

    partial: object = None
