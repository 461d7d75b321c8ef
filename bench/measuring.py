"""CPU seconds, wall seconds and peak memory of commands and of trees of processes (Linux)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PYTHON: Final = sys.executable
OURS: Final = (PYTHON, "-m", "agentcompass.cli.main")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a finished command used, its own finished children included."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str = ""


def spent_by(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, accepts: Iterable[int] = (0,)
) -> Spent:
    """Run a command to its end; RuntimeError if its exit code is not one of `accepts`."""
    start = time.perf_counter()
    # What it prints goes through a file: a pipe that nobody empties would stop it.
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=printed
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        output = printed.read().decode()
    if process.returncode not in accepts:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Spent(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6, output)


def cpu_of_tree(root: int) -> float:
    """Return the CPU seconds of a process, its descendants, and those that they have reaped."""
    parents, seconds = _processes()
    return sum(seconds.get(pid, 0.0) for pid in _tree(root, parents))


def memory_of_tree(root: int) -> float:
    """Return the proportional memory of a process and its descendants, in MB."""
    parents, _ = _processes()
    return sum(_proportional_bytes(pid) for pid in _tree(root, parents)) / 1e6


def _tree(root: int, parents: Mapping[int, int]) -> set[int]:
    members, size = {root}, 0
    while len(members) > size:
        size = len(members)
        members |= {pid for pid, parent in parents.items() if parent in members}
    return members


def _processes() -> tuple[dict[int, int], dict[int, float]]:
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for path in _PROC.iterdir():
        if not path.name.isdigit():
            continue
        try:
            text = path.joinpath("stat").read_bytes()
        except OSError:
            continue
        fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold spaces
        parents[int(path.name)] = int(fields[1])
        seconds[int(path.name)] = sum(map(int, fields[11:15])) / _TICKS_PER_S
    return parents, seconds


def _proportional_bytes(pid: int) -> int:
    try:
        lines = _PROC.joinpath(str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
