"""Ties a process to its parent: it must not outlive it, whatever ends the parent.

Two means, because neither is enough. A pipe on the child's standard input: the kernel closes the
other end when the parent dies; the child must be ours and look. Linux's parent-death signal: works
on any program, but counts the death of the *thread* that started it, so only single-threaded
processes of ours use it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

GOODBYE: Final = b"goodbye\n"
"""From a parent that lets go on purpose."""

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def start_on_pipe(
    argv: Sequence[str],
    env: Mapping[str, str],
    output: IO[bytes] | int | None = None,
    *,
    inherited: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process of ours that looks at its standard input; may be called from any thread.

    In a session of its own: Ctrl-C in the terminal is for the parent, which then decides.

    Args:
        output: where its standard error goes; None is ours.
        inherited: descriptors that it keeps under the same numbers.
    """
    return subprocess.Popen(
        argv,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        start_new_session=True,
        pass_fds=inherited,
        bufsize=0,  # what was said is on its way, and closing says nothing more
    )


def tell(process: subprocess.Popen[bytes], line: bytes) -> None:
    """Write a line on the leash; a process that is gone already hears nothing."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.write(line)


def hear(process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    """Return the first line of its standard output, or b"" at its end or after `timeout_s`."""
    if process.stdout is None or not select.select([process.stdout], [], [], timeout_s)[0]:
        return b""
    return process.stdout.readline()


def start_mortal(
    argv: Sequence[str], env: Mapping[str, str], output: IO[bytes] | int | None = None
) -> subprocess.Popen[bytes]:
    """Start any program so that SIGKILL ends it when this process dies. Single-threaded callers only."""
    parent = os.getpid()

    def die_with_parent() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return subprocess.Popen(
        argv,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


def heard(timeout_s: float) -> bytes | None:
    """Wait for up to `timeout_s` for a word from the parent at the other end of standard input.

    Returns:
        None if there was none, b"" as soon as the parent is gone.
    """
    readable, _, _ = select.select([0], [], [], timeout_s)
    return os.read(0, 4096) if readable else None
