"""How a command is started where it is not our own child, and what its exit code then means."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agentcompass.environments.base import Command, ExecResult

_SIGNALLED: Final = 128
_LAST_SIGNAL: Final = 64


def in_shell(command: Command) -> tuple[str, ...]:
    """Return the arguments that run it.

    A sequence goes through a shell as well, which ends with 127 if there is no such program.
    """
    if isinstance(command, str):
        return "/bin/sh", "-c", command
    return "/bin/sh", "-c", 'exec "$@"', "sh", *command


def with_signal(result: ExecResult) -> ExecResult:
    """Return a result whose code is negative where 128 + signal was reported.

    Sandboxes and containers report like shells, so a program that itself exits with such a
    code counts as ended by that signal.
    """
    signal = result.exit_code - _SIGNALLED
    return replace(result, exit_code=-signal) if 0 < signal <= _LAST_SIGNAL else result
