"""Runs inside the evaluation environment, by `python -I -c SOURCE`; no worker imports it.

Reads its work, its limits and a nonce from standard input, and reports on descriptor 3: what the
solution prints goes elsewhere, and cannot fill the output limit before the verdict. Says `started`
before it touches the solution, so that a missing interpreter is told from a bad solution, and the
nonce after `check` has returned, so that a solution that ends the process with code 0 proves
nothing. The solution gets no network where the system lets us take it away, nothing to read and
no variables; for a defence against malice evaluate in a sandbox.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from types import CodeType
from typing import Any

KEPT = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"})
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000


def main() -> None:
    """Execute one solution with its tests and say how it ended."""
    job = json.loads(sys.stdin.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what has been read can be read again: the tests, and the nonce
    os.close(nothing)
    for name in set(os.environ) - KEPT:
        del os.environ[name]
    said = without_network()
    say("started" + (" with network: " + said if said else ""))
    limit(job["limits"])
    try:
        check(job)
    except BaseException as error:  # noqa: BLE001 -- SystemExit too is the solution's own failure
        say("failed " + reason_of(error))
    else:
        say("passed " + job["nonce"])
    os._exit(0)  # not waiting for threads that the solution left


def say(line: str) -> None:
    """Report one line, whatever the solution did to `sys.stdout`."""
    os.write(3, (line + "\n").encode("utf-8", "backslashreplace"))


def without_network() -> str:
    """Leave the machine's network; returns why that was not possible, "" if there is none now."""
    if interfaces() <= {"lo"}:
        return ""
    problem = ""
    # Root can do without a user namespace, others cannot.
    for flags in (NEW_NETWORK, NEW_NETWORK | NEW_USER):
        try:
            unshare(flags)
        except (AttributeError, OSError) as error:
            problem = str(error)
        else:
            return ""
    return problem


def interfaces() -> set[str]:
    """Return the names of the network's interfaces; one that nobody has if they are not known."""
    try:
        return {name for _, name in socket.if_nameindex()}
    except OSError:
        return {"?"}


def unshare(flags: int) -> None:
    """Leave namespaces: the system call, which Python knows since 3.12; AttributeError where there is none."""
    if hasattr(os, "unshare"):
        os.unshare(flags)
        return
    import ctypes  # costs 5 ms

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def limit(limits: dict[str, int]) -> None:
    """Bound this process; a lower bound that is there already stays."""
    for name, wanted in limits.items():
        kind = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(kind)[1]
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (allowed, allowed))


def check(job: dict[str, Any]) -> None:
    """Define the solution, then its tests beside it, and run them; raises if it is wrong."""
    # Not "__main__": a demonstration below `if __name__ == "__main__"` is no part of the solution.
    names: dict[str, Any] = {"__name__": "solution"}
    exec(first_that_compiles(job["candidates"]), names)  # noqa: S102 -- what this process is for
    exec(compile(job["test"], "test.py", "exec"), names)  # noqa: S102
    names["check"](names[job["entry_point"]])


def first_that_compiles(candidates: list[str]) -> CodeType:
    """Return the first program that compiles, else raise what is wrong with the likeliest."""
    problems: list[Exception] = []
    for source in candidates:
        try:
            return compile(source, "solution.py", "exec")
        except (SyntaxError, ValueError) as error:
            problems.append(error)
    raise problems[0]


def reason_of(error: BaseException) -> str:
    """Return the last line of a traceback, of readable length."""
    import traceback  # costs 8 ms, and most solutions need none

    text = "".join(traceback.format_exception_only(type(error), error))
    return " ".join(text.split())[:500]


if __name__ == "__main__":
    main()
